"""Thesis chapter 3: how close is the pseudo-NTK to the empirical NTK? One cell is one measurement of one network.

What is measured is one of the modules of `measures/`; a cell's digest covers that one alone.
"""

from pathlib import Path

import torch

from bench.core import registry
from bench.core.errors import UserError
from bench.learn.data import Data
from bench.studies.pntk import MEASURES, Cell


def run(cell: Cell, settings: dict, data: Data | None, device: torch.device, journal) -> dict:
    module, _ = registry.load(MEASURES, cell.measure)
    return module.measure(cell, settings, data, device, journal)


def stage(name: str, cell: Cell, settings: dict, data: Data, device: torch.device, journal, folder: Path) -> None:
    """Only the measure `full` has stages: the networks, then the tiles of their kernels."""
    module, _ = registry.load(MEASURES, cell.measure)
    if not hasattr(module, "stage"):
        raise UserError(f"{cell}: the measure {cell.measure!r} has no stages; leave --stage out")
    module.stage(name, cell, settings, data, device, journal, folder)
