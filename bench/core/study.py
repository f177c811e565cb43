"""A study is a folder `bench/studies/<name>/`, found by itself. This is the contract it keeps.

`__init__.py`, imported by Snakemake and so without torch:

    Cell                      its axes and path, a `bench.core.cell.Cell`
    TABLES                    the tables it makes; <name>-claims is one of them
    RECORD                    JSON Schema of what its `run` returns
    cells(config)             every cell the configuration asks for, once, in order
    settings(config, cell)    all that decides a record besides the cell itself
    uses(cell)                {"datasets": [...], "nets": [...], "strategies": [...]}, specs, at most one dataset;
                              inputs, the digest of the code and the check of names follow from it
    problems(config)          (key, what is wrong) for mistakes that no schema can express
    departures(config)        [Departure], how the configuration departs from the paper
    inputs(config, cell)      optional: records of other cells that a cell reads; `cells` has these, too
    stages(config, cell)      optional: jobs to do before a large cell, [[name, ...], ...]: those of one list at once,
                              list after list. They decide where a record is computed, not what it says
    needs(cell, settings)     optional: {"threads": ..., "mem_mb": ...} where a cell needs other than 1 and 8,000
    work(settings)            optional, for `plan`: how many images a cell trains on and predicts, and how often it is
                              tested; its Cell then has a width, its settings a recipe and average_pool

`schema.yaml`, its section of the configuration, its seeds included.
`run.py`, `run(cell, settings, data, device, journal) -> found`; for stages also `stage(name, cell, settings, data,
device, journal, folder)`, which leaves in `folder`, the cell's scratch, what `run` finds there or else does by itself.
`tables.py`, `tables(records, metas, config) -> {name: frame}`.
`claims.csv` and `claims.py`, `measure(claim, frames, config)`, see `bench.report.claims`.
`published/`, the paper's numbers; `figures/`, one module each.
Optionally `docs.py`, BLOCKS of generated documents and `headline()`, its line at the top of README.
"""

import importlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from bench.core import registry
from bench.core.errors import UserError


@dataclass(frozen=True)
class Departure:
    """One way in which a panel departs from the paper's; `what` alone says it where there is no pair of values."""

    panel: str
    what: str
    here: str = ""
    paper: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.here} (paper {self.paper})" if self.paper else self.what


def texts(departures: list[Departure]) -> dict[str, str]:
    """Panel -> its departures in one line."""
    panels = dict.fromkeys(departure.panel for departure in departures)
    return {panel: ", ".join(str(each) for each in departures if each.panel == panel) for panel in panels}


@cache
def names() -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in registry.ROOT.glob("studies/[!_]*/__init__.py")))


def load(name: str) -> ModuleType:
    if name not in names():
        raise UserError(registry.unknown("study", name, names()))
    return importlib.import_module(f"bench.studies.{name}")


def part(name: str, module: str) -> ModuleType:
    """A module of a study's room, such as its `tables`."""
    return importlib.import_module(f"bench.studies.{name}.{module}")


def folder(name: str) -> Path:
    return registry.ROOT / "studies" / name


def section(config: dict, name: str) -> dict:
    """The part of a configuration that a study's cells and tables depend on."""
    return {key: config[key] for key in ("scale", "demonstration", name)}


def figures(name: str) -> dict[str, registry.Component]:
    return registry.components(f"studies/{name}/figures")


def all_figures() -> dict[str, registry.Component]:
    return {figure: component for name in names() for figure, component in figures(name).items()}
