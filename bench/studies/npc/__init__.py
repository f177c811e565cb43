"""NPC: active semi-supervised learning by the smallest eigenvalue.

The question: measured by the accuracy of semi-supervised training, does buying the batch whose tangent kernel is best
conditioned beat buying at random, and the other strategies? A cell is one trial of one strategy. `run.py` is the
experiment, `tables.py` what comes of it.

A cell's mode says when labels are bought: `steps`, query after query from an initial model that all share; `single-40`,
once with that model, up to 40 labels; `zero-40`, once with a network that was never trained. `initial` is the cell that
makes the initial model. A recipe with `labels_of` buys nothing: it trains on label sets bought with another recipe.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench.core import cell, config, paths, registry
from bench.core.errors import UserError
from bench.core.study import Departure

TABLES = (
    "npc-curves",
    "npc-summary",
    "npc-published",
    "npc-differences",
    "npc-queries",
    "npc-overlap",
    "npc-criteria",
    "npc-rankings",
    "npc-departures",
    "npc-claims",
)
_CYCLE = {
    "type": "object",
    "required": [
        *("labelled", "test_accuracy", "last_accuracy", "train_accuracy", "pool_accuracy", "sure", "sure_accuracy"),
        *("predicted", "queried", "bought", "notes", "criteria"),
    ],
}
RECORD = {
    "type": "object",
    "required": ["cycles", "parameters", "pool"],
    "properties": {"cycles": {"type": "array", "items": _CYCLE, "minItems": 1}},
}
INITIAL = "initial"  # the mode of the cell that makes the initial model; its strategy is `random`, its trial 0


@dataclass(frozen=True, order=True)
class Cell(cell.Cell):
    PATTERN = "{dataset}/{net}/width-{width}/{recipe}/{mode}/{strategy}/seed-{seed}"

    dataset: str
    net: str
    width: int
    recipe: str
    mode: str
    strategy: str
    seed: int


def cells(config: dict) -> list[Cell]:
    """Every cell that a panel shows, and every cell that one of these needs, once."""
    found: set[Cell] = set()
    todo = [
        Cell(*(panel[axis] for axis in ("dataset", "net", "width", "recipe", "mode")), strategy, seed)
        for panel in panels(config).values()
        for strategy in panel["strategies"]
        for seed in panel["seeds"]
    ]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += needed(one, settings(config, one))
    return sorted(found)


def panels(config: dict) -> dict[str, dict]:
    """Every panel with its trials: its own, or the study's."""
    ours = config["npc"]
    return {name: {"seeds": ours["seeds"]} | panel for name, panel in ours["panels"].items()}


def needed(cell: Cell, settings: dict) -> list[Cell]:
    """The cells whose records a cell reads: the one that bought its labels, or the one that made its initial model."""
    if settings["recipe"]["labels_of"]:
        return [replace(cell, recipe=settings["recipe"]["labels_of"])]
    if cell.mode == INITIAL or cell.mode.startswith("zero-"):
        return []
    return [replace(cell, mode=INITIAL, strategy="random", seed=0)]


def inputs(config: dict, cell: Cell) -> list[str]:
    """Where these records are."""
    others = needed(cell, settings(config, cell))
    return [str(paths.record_path(config["scale"], "npc", other)) for other in others]


def uses(cell: Cell) -> dict[str, list[str]]:
    return {"datasets": [cell.dataset], "nets": [cell.net], "strategies": [cell.strategy]}


def settings(config: dict, cell: Cell) -> dict:
    found = of_setting(config, cell.dataset, cell.recipe, cell.mode)
    if theirs := found["recipe"]["labels_of"]:
        found["bought_with"] = of_setting(config, cell.dataset, theirs, cell.mode)
    return found


def of_setting(given: dict, dataset: str, recipe: str, mode: str) -> dict:
    """Settings, equal for every network, strategy and trial.

    `recipe` names one and what departs from it: `fixmatch-darp+steps=2000`. Keys are those of a recipe, then of a
    protocol, then `statistics`. `queries` are the sizes of all queries.
    """
    ours, name = given["npc"], recipe.partition("+")[0]
    if name not in ours["recipes"]:
        raise UserError(registry.unknown("recipe", name, ours["recipes"]))
    if dataset not in ours["protocol"]:
        raise UserError(registry.unknown("dataset of npc.protocol", dataset, ours["protocol"]))
    found = {
        "average_pool": ours["images"]["average_pool"].get(dataset, 1),
        "statistics": ours["images"]["statistics"],
        "recipe": dict(ours["recipes"][name]),
        "protocol": dict(ours["protocol"][dataset]),
    }
    kinds = config.schema()["$defs"]
    config.vary(
        recipe,
        [
            (found["recipe"], kinds["npc.recipe"]["properties"]),
            (found["protocol"], kinds["npc.protocol"]["properties"]),
            (found, {"statistics": kinds["images"]["properties"]["statistics"]}),
        ],
    )
    classes = registry.components("datasets")[dataset].constants["CLASSES"]
    return found | {"queries": _queries(mode, found["protocol"], classes)}


def _queries(mode: str, protocol: dict, classes: int) -> list[int]:
    kind, _, labels = mode.partition("-")
    first = protocol["initial"] * classes
    if mode == INITIAL:
        return []
    if mode == "steps":
        return [protocol["query"]] * protocol["queries"]
    if kind not in ("single", "zero") or not re.fullmatch("[1-9][0-9]{0,8}", labels):
        raise UserError(f"mode: found {mode!r}; allowed: steps, single-40 or zero-40 with any number of labels")
    size = int(labels) - (first if kind == "single" else 0)
    if size < 1:
        raise UserError(f"mode {mode!r}: the initial model has {first} labels already; ask for more")
    return [size]


def problems(config: dict) -> Iterator[tuple[str, str]]:
    ours, datasets = config["npc"], registry.components("datasets")
    for section, named in (("images.average_pool", ours["images"]["average_pool"]), ("protocol", ours["protocol"])):
        for name in named:
            if name not in datasets:
                yield f"npc.{section}", registry.unknown("dataset", name, datasets)
    for panel, setting in ours["panels"].items():
        where = f"npc.panels.{panel}"
        for key, package in (("dataset", "datasets"), ("net", "nets"), ("strategies", "strategies")):
            specs = setting[key] if isinstance(setting[key], list) else [setting[key]]
            for problem in filter(None, (registry.problem(package, spec) for spec in specs)):
                yield f"{where}.{key}", problem
        if setting["mode"] == INITIAL:
            yield f"{where}.mode", "found 'initial', which is made by itself; allowed: steps, single-40 or zero-40"
            continue
        try:
            found = of_setting(config, setting["dataset"], setting["recipe"], setting["mode"])
            theirs = found["recipe"]["labels_of"]
            bought = of_setting(config, setting["dataset"], theirs, setting["mode"]) if theirs else found
        except UserError as error:
            yield where, str(error)
            continue
        if theirs and bought["recipe"]["labels_of"]:
            yield f"{where}.recipe", f"labels_of names {theirs!r}, which buys no labels of its own"
        if theirs and bought["protocol"]["pool"] != found["protocol"]["pool"]:
            yield f"{where}.recipe", f"its pool is not that of {theirs!r}, which bought its labels"
        if found["recipe"]["darp"] and found["recipe"]["mode"] != "fixmatch":
            yield f"{where}.recipe", "DARP refines pseudo-labels, which supervised training has not; set darp: false"
        facts = datasets[setting["dataset"]].constants
        first = 0 if setting["mode"].startswith("zero-") else found["protocol"]["initial"] * facts["CLASSES"]
        images = min(found["protocol"]["pool"] or facts["SIZES"][0], facts["SIZES"][0])
        if (wanted := first + sum(found["queries"])) > images:
            yield where, f"{wanted} labels are wanted, but the pool has {images} images"
        if found["recipe"]["evaluations"] > (epochs := -(-found["recipe"]["steps"] // found["recipe"]["epoch"])):
            yield where, f"{found['recipe']['evaluations']} evaluations are wanted, but a training has {epochs} epochs"


def departures(given: dict) -> list[Departure]:
    """How each panel of this configuration departs from the paper's."""
    paper = config.check({"scale": "paper"}, "the papers' values")
    return [departure for name in given["npc"]["panels"] for departure in _departures(given, paper, name)]


def _departures(given: dict, paper: dict, name: str) -> Iterator[Departure]:
    ours, theirs = panels(given)[name], panels(paper).get(name)
    if theirs is None or not name.startswith("npc-table-"):
        yield Departure(name, "a panel of this suite's own")
    if theirs is None:
        return
    here, there = _flat(given, ours), _flat(paper, theirs)
    for key in here:
        if here[key] != there[key]:
            yield Departure(name, key, str(here[key]), str(there[key]))
    for strategy in theirs["strategies"]:
        if strategy not in ours["strategies"]:
            yield Departure(name, f"without {strategy}")


def _flat(given: dict, panel: dict) -> dict[str, object]:
    nested = of_setting(given, panel["dataset"], panel["recipe"], panel["mode"])
    flat = {"dataset": panel["dataset"], "net": panel["net"], "width": panel["width"], "trials": len(panel["seeds"])}
    flat |= {"average pooling": nested["average_pool"], "statistics": nested["statistics"]}
    initial = {"initial trainings": nested["protocol"].pop("trials")}
    return flat | initial | nested["protocol"] | nested["recipe"]


def work(settings: dict) -> dict[str, int]:
    """Images that a cell trains on and predicts, queries set aside, for `python -m bench plan`."""
    recipe, trainings = settings["recipe"], len(settings["queries"]) or settings["protocol"]["trials"]
    trainings += bool(recipe["labels_of"])  # on the initial labels
    views = 1 if recipe["mode"] != "fixmatch" else 1 + 2 * recipe["mu"]
    return {
        "trained": trainings * recipe["steps"] * recipe["batch"] * views,
        "predicted": 0,
        "tested": trainings * recipe["evaluations"],
    }
