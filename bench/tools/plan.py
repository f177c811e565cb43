"""What a scale costs: its jobs, and hours on this machine, measured rather than guessed.

Cells of a study that differ only in strategy and seed cost about the same: a setting. One whose cells have run here is
priced at their mean time. Any other is priced by timing one training step and one prediction of its network on random
images, and counting how many a cell makes (the study's `work`); queries and kernels are not counted.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pandas as pd
import torch

from bench import nets
from bench.core import device, paths, provenance, records, registry, study
from bench.core.cell import Cell
from bench.core.progress import say
from bench.core.seeds import torch_stream
from bench.learn.train import loss_of

PROBE = {"cpu": 8, "cuda": 128}  # images timed at once; the cost per image is constant beyond that
APART = ("strategy", "seed")  # axes that a setting leaves open


def prices(config: dict, where: str = "auto") -> pd.DataFrame:
    """One row per setting: its jobs, those not yet done, seconds a job, and how that is known."""
    chosen = torch.device(device.kind(where))
    device.settle(chosen, threads=1)  # as many as a cell of the workflow has
    rows = []
    for name in config["studies"]:
        room = study.load(name)
        jobs: dict[str, list[Cell]] = defaultdict(list)
        for cell in room.cells(config):
            jobs[" ".join(str(value) for axis, value in asdict(cell).items() if axis not in APART)].append(cell)
        for setting, cells in jobs.items():
            left = [cell for cell in cells if not paths.record_path(config["scale"], name, cell).is_file()]
            settings = room.settings(config, cells[0])
            seconds, how = _measured(name, cells, settings, chosen.type), "measured"
            if seconds is None and hasattr(room, "work") and room.uses(cells[0]).get("nets"):
                say(f"timing {name}: {setting} ...")
                seconds, how = _probed(room, cells[0], settings, chosen), "probed"
            elif seconds is None:
                how = "unknown"
            rows.append((config["scale"], name, setting, len(cells), len(left), seconds, how, chosen.type))
    columns = ["scale", "study", "setting", "jobs", "left", "seconds_per_job", "how", "device"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(processor=provenance.device_name(chosen), threads=torch.get_num_threads())


def report(table: pd.DataFrame) -> str:
    """The prices for people."""
    hours = table["left"] * table["seconds_per_job"] / 3600
    shown = table[["study", "setting", "jobs", "left"]].assign(
        **{"minutes/job": (table["seconds_per_job"] / 60).round(1), "hours left": hours.round(1), "how": table["how"]}
    )
    first = table.iloc[0]
    probed = (table["how"] == "probed").any()
    return (
        f"scale {first['scale']} on {first['processor']} ({first['device']}, {first['threads']} threads)\n"
        f"{shown.to_string(index=False)}\n"
        f"{table['jobs'].sum()} jobs, {hours.sum():.1f} hours left one at a time; k at a time take about 1/k of that"
        + ("\nprobed: training and evaluation only, queries and kernels are not counted" if probed else "")
        + ("\nunknown: not counted; run one cell to know" if (table["how"] == "unknown").any() else "")
    )


def _measured(name: str, cells: list[Cell], settings: dict, kind: str) -> float | None:
    """Mean seconds of cells of this setting that ran on this kind of device, at any scale."""
    times = []
    for cell in cells:
        for path in Path("results").glob(f"*/runs/{name}/{cell}.json"):
            record, meta = records.read(path), records.read_json(paths.meta_path(path))
            if record["settings_hash"] == records.fingerprint(settings) and record["device"] == kind:
                times.append(meta["seconds"]["total"])
    return sum(times) / len(times) if times else None


def _probed(room, cell: Cell, settings: dict, chosen: torch.device) -> float:
    """Seconds of one cell, from the time per image of a training step and of a prediction."""
    used = room.uses(cell)
    facts, pool = registry.components("datasets")[used["datasets"][0]].constants, settings["average_pool"]
    shape = (facts["SHAPE"][0], *(side // pool for side in facts["SHAPE"][1:]))
    loss = settings["recipe"].get("loss", "cross-entropy")
    step, forward = _per_image(used["nets"][0], shape, facts["CLASSES"], cell.width, loss, chosen)
    work = room.work(settings)
    return work["trained"] * step + (work["predicted"] + work["tested"] * facts["SIZES"][1]) * forward


@cache
def _per_image(
    net: str, shape: tuple[int, int, int], classes: int, width: int, loss: str, chosen: torch.device
) -> tuple[float, float]:
    """Seconds per image of a training step and of a prediction; settings that share a network share its probe."""
    batch = PROBE[chosen.type]
    model = nets.build(net, shape, classes, width, torch_stream(0, "init")).to(chosen)
    x = torch.rand(batch, *shape, generator=torch_stream(0, "data")).to(chosen)
    y = torch.zeros(batch, dtype=torch.long, device=chosen)

    def predict() -> None:
        with torch.no_grad():
            model(x)

    step = _time(lambda: loss_of(loss, model(x), y).backward(), chosen) / batch
    return step, _time(predict, chosen) / batch


def _time(work: Callable[[], object], chosen: torch.device, repeats: int = 3) -> float:
    """The fastest of a few runs, in seconds, after one to warm up."""
    best = math.inf
    for _ in range(1 + repeats):
        device.synchronise(chosen)
        start = time.perf_counter()
        work()
        device.synchronise(chosen)
        best = min(best, time.perf_counter() - start)
    return best
