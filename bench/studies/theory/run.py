"""One experiment, part by part. A part draws from streams of its own, so a killed run goes on to the same bytes.

A module of `experiments/` states SETTINGS and COLUMNS and offers `parts(sizes)`, what is done and saved at a time, and
`measure(task, part)`, the rows found there; a row gets the keys of its part. A cell's digest covers that module alone.
"""

import numpy as np
import torch

from bench.core import progress, registry
from bench.learn.data import Data
from bench.studies.theory import EXPERIMENTS, Cell
from bench.studies.theory.task import Task


def run(cell: Cell, settings: dict, data: Data | None, device: torch.device, journal) -> dict:
    experiment, _ = registry.load(EXPERIMENTS, cell.experiment)
    task, parts = Task(cell.setting, settings, cell.seed, device, data), experiment.parts(settings)
    rows = journal.state["rows"] if journal.state else []
    done = journal.state["done"] if journal.state else 0
    with progress.counter(f"{cell.experiment} {cell.setting}", len(parts) - done, shown=len(parts) > done) as (tick, _):
        for number, part in enumerate(parts[done:], done):
            with journal.clock("part", number):
                rows = rows + [_plain(part | row) for row in experiment.measure(task, part)]
            journal.save({"rows": rows, "done": number + 1})
            tick()
    return {"rows": rows}


def _plain(row: dict) -> dict:
    """Python's own numbers, as files have them."""
    return {key: value.item() if isinstance(value, np.generic) else value for key, value in row.items()}
