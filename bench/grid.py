"""The grid: which cells a configuration asks for, their settings, and the only map between cells and paths."""

import hashlib
import json
from pathlib import Path

from bench import config as configuration
from bench import registry
from bench.cells import Cell
from bench.config import settings

STUDIES = ("lookahead",)
TABLES = (
    "lookahead-curves",
    "lookahead-summary",
    "lookahead-areas",
    "lookahead-tests",
    "lookahead-ranks",
    "lookahead-costs",
    "lookahead-times",
    "lookahead-times-per-cycle",
    "lookahead-choices",
    "lookahead-claims",
    "thesis-2.1",
)
SWEEPS = {"-width-": "width", "-lr-": "lr"}  # panels `<figure>-width-40` differ in this key alone
STAND_IN = "kernel of infinite and gp that of a fully-connected ReLU network (paper does not say which)"


def cells(panels: dict, seeds: list[int]) -> list[Cell]:
    """Every cell of the look-ahead study, once, whichever panels show it."""
    return sorted(
        {
            Cell(panel["dataset"], panel["net"], panel["width"], panel["recipe"], strategy, seed)
            for panel in panels.values()
            for strategy in panel["strategies"]
            for seed in seeds
        }
    )


def fingerprint(value: dict) -> str:
    """A short hash of settings, the same wherever they were written down."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def collection(config: dict) -> dict:
    """All that the tables of the look-ahead study depend on besides the records."""
    return {
        "scale": config["scale"],
        "seeds": config["seeds"],
        "panels": config["lookahead"]["panels"],
        "deviations": deviations(config),
    }


def record_path(scale: str, study: str, cell: Cell | str) -> Path:
    return Path(f"results/{scale}/runs/{study}/{cell}.json")


def meta_path(record: Path) -> Path:
    return record.with_suffix(".meta.json")


def resume_path(record: Path) -> Path:
    """The resume file of a record: results/<scale>/runs/... -> results/<scale>/resume/..."""
    return _beside(record, "resume", ".pt")


def log_path(record: Path) -> Path:
    return _beside(record, "logs", ".log")


def _beside(record: Path, folder: str, suffix: str) -> Path:
    parts = record.parts
    for place, part in enumerate(parts[2:], start=2):
        if part == "runs" and parts[place - 2] == "results":
            return Path(*parts[:place], folder, *parts[place + 1 :]).with_suffix(suffix)
    return record.with_suffix(suffix)  # a record somewhere of the user's own keeps its files next to it


def deviations(config: dict) -> dict[str, str]:
    """Panel -> how this configuration departs from the papers' values there, in words ('' where it does not)."""
    paper = configuration.check({"scale": "paper"}, "the papers' values")
    return {name: _departures(config, paper, name) for name in config["lookahead"]["panels"]}


def _departures(config: dict, paper: dict, name: str) -> str:
    panel, panels = config["lookahead"]["panels"][name], paper["lookahead"]["panels"]
    parts = [STAND_IN] if {"infinite", "gp", "gp-random"} & set(panel["strategies"]) else []
    family, key = _family(panels, name)
    if not family:
        return ", ".join(["a panel of this suite's own", *parts])
    here, there = _flat(config, panel), _flat(paper, family[0])
    if key:
        values = [_flat(paper, other)[key] for other in family]
        there[key] = here[key] if here[key] in values else "/".join(map(str, values))
    differing = [f"{key} {here[key]} (paper {there[key]})" for key in here if here[key] != there[key]]
    return ", ".join(differing + parts + _dropped(panel["strategies"], family[0]["strategies"]))


def _family(panels: dict, name: str) -> tuple[list[dict], str]:
    """The papers' panel of that name; or the whole sweep that a further width or rate would be part of, and its key."""
    if name in panels:
        return [panels[name]], ""
    for infix, key in SWEEPS.items():
        start, found, _ = name.partition(infix)
        if found:
            return [panel for other, panel in panels.items() if other.startswith(start + infix)], key
    return [], ""


def _dropped(here: list[str], there: list[str]) -> list[str]:
    """`without ll4al`, `naive only timed`: the paper's strategies that are not here."""
    timed = {name.partition("+")[0] for name in here if timing_only(name)}
    return [f"{name} only timed" if name in timed else f"without {name}" for name in there if name not in here]


def timing_only(strategy: str) -> bool:
    """Whether only the query times of this strategy mean anything, as its module says."""
    name, *options = strategy.split("+")
    module = registry.components("strategies").get(name)
    return module is not None and any(
        f"{option}={value}" in options for option, value in module.constants.get("TIMING_ONLY", {}).items()
    )


def _flat(config: dict, panel: dict) -> dict[str, object]:
    nested = settings(config, panel["dataset"], panel["recipe"])
    flat = {"dataset": panel["dataset"], "net": panel["net"], "width": panel["width"], "seeds": len(config["seeds"])}
    flat |= {"average pooling": nested["average_pool"], "statistics": nested["statistics"]}
    return flat | nested["protocol"] | nested["recipe"]
