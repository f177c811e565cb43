"""Thesis chapter 2: look-ahead active learning, made feasible by the empirical NTK.

The question: does buying the labels that would change the network most beat the alternatives? A cell is one seed of
one strategy, trained by one recipe with one network on one dataset. Panels of the thesis' figures name what to run;
cells that several panels share run once. `run.py` is the experiment, `tables.py` what comes of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.core import cell, config, registry
from bench.core.errors import UserError
from bench.core.study import Departure
from bench.studies.lookahead.timed import timing_only

TABLES = (
    "lookahead-curves",
    "lookahead-runs",
    "lookahead-summary",
    "lookahead-areas",
    "lookahead-tests",
    "lookahead-ranks",
    "lookahead-costs",
    "lookahead-queries",
    "lookahead-times",
    "lookahead-times-per-cycle",
    "lookahead-choices",
    "lookahead-bought",
    "lookahead-audit",
    "lookahead-improvement",
    "lookahead-departures",
    "lookahead-claims",
    "thesis-2.1",
)
_CYCLE = {
    "type": "object",
    "required": [
        *("cycle", "labelled", "test_accuracy", "test_loss", "train_accuracy", "train_loss"),
        *("candidates", "queried", "bought", "notes"),
    ],
}
RECORD = {
    "type": "object",
    "required": ["cycles", "initial", "learning_rate", "diverged", "parameters", "only_timed"],
    "properties": {
        "cycles": {"type": "array", "items": _CYCLE, "minItems": 1},
        "only_timed": {"type": "boolean"},
    },
}
SWEEPS = {"-width-": "width", "-lr-": "lr"}  # panels `<figure>-width-40` differ in this key alone
STAND_IN = "kernel of infinite and gp that of a fully-connected ReLU network (paper does not say which)"


@dataclass(frozen=True, order=True)
class Cell(cell.Cell):
    PATTERN = "{dataset}/{net}/width-{width}/{recipe}/{strategy}/seed-{seed}"

    dataset: str
    net: str
    width: int
    recipe: str
    strategy: str
    seed: int


def cells(config: dict) -> list[Cell]:
    """Every cell of the study, once, whichever panels show it."""
    return sorted(
        {
            Cell(panel["dataset"], panel["net"], panel["width"], panel["recipe"], strategy, seed)
            for panel in panels(config).values()
            for strategy in panel["strategies"]
            for seed in panel["seeds"]
        }
    )


def panels(config: dict) -> dict[str, dict]:
    """Every panel with its seeds: its own, or the study's."""
    ours = config["lookahead"]
    return {name: {"seeds": ours["seeds"]} | panel for name, panel in ours["panels"].items()}


def uses(cell: Cell) -> dict[str, list[str]]:
    return {"datasets": [cell.dataset], "nets": [cell.net], "strategies": [cell.strategy]}


def settings(config: dict, cell: Cell) -> dict:
    return of_setting(config, cell.dataset, cell.recipe)


def of_setting(given: dict, dataset: str, recipe: str) -> dict:
    """Settings, equal for every strategy and seed of a setting.

    `recipe` names one and what departs from it: `l2+lr=0.3`, `l2-augment+view=augmented`. Keys are those of a recipe,
    then of a protocol, then `statistics`.
    """
    ours, name = given["lookahead"], recipe.partition("+")[0]
    if name not in ours["recipes"]:
        raise UserError(registry.unknown("recipe", name, ours["recipes"]))
    if dataset not in ours["protocol"]:
        raise UserError(registry.unknown("dataset of lookahead.protocol", dataset, ours["protocol"]))
    found = {
        "average_pool": ours["images"]["average_pool"].get(dataset, 1),
        "statistics": ours["images"]["statistics"],
        "recipe": dict(ours["recipes"][name]),
        "protocol": dict(ours["protocol"][dataset]),
    }
    kinds = config.schema()["$defs"]
    statistics = {"statistics": kinds["images"]["properties"]["statistics"]}
    config.vary(
        recipe,
        [
            (found["recipe"], kinds["recipe"]["properties"]),
            (found["protocol"], kinds["lookahead.protocol"]["properties"]),
            (found, statistics),
        ],
    )
    return found


def oversized(protocol: dict, train_size: int) -> str | None:
    """Why a query protocol does not fit a training set of this size, or None."""
    wanted = protocol["initial"] + (protocol["cycles"] - 1) * protocol["query"]
    if wanted > train_size:
        return f"initial + (cycles - 1) * query = {wanted} labels, but there are {train_size} training images"
    if protocol["cycles"] > 1 and protocol["query"] > protocol["subset"]:
        return f"query ({protocol['query']}) is larger than subset ({protocol['subset']}), from which it is chosen"
    return None


def problems(config: dict) -> Iterator[tuple[str, str]]:
    ours, datasets = config["lookahead"], registry.components("datasets")
    for section, named in (("images.average_pool", ours["images"]["average_pool"]), ("protocol", ours["protocol"])):
        for name in named:
            if name not in datasets:
                yield f"lookahead.{section}", registry.unknown("dataset", name, datasets)
    for name, factor in ours["images"]["average_pool"].items():
        shape = datasets[name].constants["SHAPE"]
        if factor > min(shape[1:]):
            yield f"lookahead.images.average_pool.{name}", f"found {factor}; its images have {shape} pixels"
    for panel, setting in ours["panels"].items():
        where = f"lookahead.panels.{panel}"
        named = (("dataset", "datasets"), ("net", "nets"), ("strategies", "strategies"))
        for key, package in named:
            specs = setting[key] if isinstance(setting[key], list) else [setting[key]]
            for problem in filter(None, (registry.problem(package, spec) for spec in specs)):
                yield f"{where}.{key}", problem
        if setting["dataset"] not in ours["protocol"]:
            yield f"{where}.dataset", f"lookahead.protocol has no entry for {setting['dataset']!r}; add one"
        try:
            protocol = of_setting(config, setting["dataset"], setting["recipe"])["protocol"]
        except UserError as error:
            yield f"{where}.recipe", str(error)
        if problem := oversized(protocol, datasets[setting["dataset"]].constants["SIZES"][0]):
            yield f"lookahead.protocol.{setting['dataset']}", problem


def departures(given: dict) -> list[Departure]:
    """How each panel of this configuration departs from the thesis'."""
    paper = config.check({"scale": "paper"}, "the papers' values")
    return [departure for name in given["lookahead"]["panels"] for departure in _departures(given, paper, name)]


def _departures(config: dict, paper: dict, name: str) -> Iterator[Departure]:
    panel = panels(config)[name]
    family, sweep = _family(panels(paper), name)
    if not family:
        yield Departure(name, "a panel of this suite's own")
    else:
        here, there = _flat(config, panel), _flat(paper, family[0])
        if sweep:
            values = [_flat(paper, other)[sweep] for other in family]
            there[sweep] = here[sweep] if here[sweep] in values else "/".join(map(str, values))
        for key in here:
            if here[key] != there[key]:
                yield Departure(name, key, str(here[key]), str(there[key]))
    if {"infinite", "gp", "gp-random"} & set(panel["strategies"]):
        yield Departure(name, STAND_IN)
    if family:
        timed = {strategy.partition("+")[0] for strategy in panel["strategies"] if timing_only(strategy)}
        for strategy in family[0]["strategies"]:
            if strategy not in panel["strategies"]:
                only = f"{strategy} only timed" if strategy in timed else f"without {strategy}"
                yield Departure(name, only)


def _family(panels: dict, name: str) -> tuple[list[dict], str]:
    """The papers' panel of that name; or the whole sweep that a further width or rate would be part of, and its key;
    or the panel of the thesis of which it is a variant: thesis-2.1a of thesis-2.1a-subset.
    """
    if name in panels:
        return [panels[name]], ""
    for infix, key in SWEEPS.items():
        start, found, _ = name.partition(infix)
        if found:
            return [panel for other, panel in panels.items() if other.startswith(start + infix)], key
    theirs = {other: panel for other, panel in panels.items() if other.startswith("thesis-")}
    return [panel for other, panel in theirs.items() if name.startswith(f"{other}-")], ""


def _flat(config: dict, panel: dict) -> dict[str, object]:
    nested = of_setting(config, panel["dataset"], panel["recipe"])
    flat = {"dataset": panel["dataset"], "net": panel["net"], "width": panel["width"], "seeds": len(panel["seeds"])}
    flat |= {"average pooling": nested["average_pool"], "statistics": nested["statistics"]}
    return flat | nested["protocol"] | nested["recipe"]


def work(settings: dict) -> dict[str, int]:
    """Images that a cell trains on and predicts, queries and the test set aside, for `python -m bench plan`."""
    protocol = settings["protocol"]
    labels = [protocol["initial"] + cycle * protocol["query"] for cycle in range(protocol["cycles"])]
    return {
        "trained": sum(labels) * settings["recipe"]["epochs"],
        "predicted": sum(labels) + protocol["cycles"] * protocol["subset"],
        "tested": protocol["cycles"],
    }
