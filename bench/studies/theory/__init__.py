"""Theorems, bounds and closed forms of the works, put to a numerical test.

The question: is what the lecture, the early-time slides, the appendix of NPC and thesis 2.2 and A.1 state in formulas
true, as printed and as meant, and how tight is it? An experiment is one module of `experiments/`: it opens with the
statement, where it stands, and what would refute it. A cell is (experiment, setting, seed).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.core import cell, config, registry
from bench.core.errors import UserError
from bench.core.study import Departure

EXPERIMENTS = "studies/theory/experiments"
TABLES = (
    *(f"theory-{name}" for name in registry.components(EXPERIMENTS)),
    *("theory-rates", "theory-departures", "theory-claims"),
)
RECORD = {
    "type": "object",
    "required": ["rows"],
    "properties": {"rows": {"type": "array", "items": {"type": "object"}}},
}


@dataclass(frozen=True, order=True)
class Cell(cell.Cell):
    PATTERN = "{experiment}/{setting}/seed-{seed}"

    experiment: str
    setting: str
    seed: int


def cells(config: dict) -> list[Cell]:
    return sorted(
        Cell(name, setting, seed)
        for name, section in config["theory"]["experiments"].items()
        for setting in section["settings"]
        for seed in section["seeds"]
    )


def settings(config: dict, cell: Cell) -> dict:
    """The sizes of the experiment."""
    sections = config["theory"]["experiments"]
    if cell.experiment not in sections:
        raise UserError(registry.unknown("experiment", cell.experiment, sections))
    return {key: value for key, value in sections[cell.experiment].items() if key not in ("settings", "seeds")}


def uses(cell: Cell) -> dict[str, list[str]]:
    """An experiment on images has their dataset in the name of its setting: `cifar10+net=convnet`."""
    known = registry.components(EXPERIMENTS)
    images = cell.experiment in known and "IMAGES" in known[cell.experiment].constants
    return {EXPERIMENTS: [cell.experiment], "datasets": [cell.setting.partition("+")[0]] if images else []}


def problems(config: dict) -> Iterator[tuple[str, str]]:
    for name, section in config["theory"]["experiments"].items():
        offered = registry.components(EXPERIMENTS)[name].constants["SETTINGS"]
        for setting in section["settings"]:
            if setting not in offered:
                yield f"theory.experiments.{name}.settings", registry.unknown(f"setting of {name}", setting, offered)


def departures(given: dict) -> list[Departure]:
    """Every size that is not the schema's own, by experiment."""
    theirs = config.check({"scale": "paper"}, "the papers' values")["theory"]["experiments"]
    return [
        Departure(name, key, _text(value), _text(theirs[name][key]))
        for name, section in given["theory"]["experiments"].items()
        for key, value in section.items()
        if value != theirs[name][key]
    ]


def _text(value: object) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)
