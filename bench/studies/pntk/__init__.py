"""Thesis chapter 3: the pseudo-NTK, a fast approximation of the empirical NTK.

The question: how close is the pNTK to the eNTK, does the distance fall with width as the theorems say, and what of it
survives training? A cell is one measurement of one network with one seed. Panels of the thesis' figures name what to
measure; cells that several panels share run once. `quantities.py` has the formulas, `measures/` the experiments.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.core import cell, config, registry
from bench.core.errors import UserError
from bench.core.study import Departure

MEASURES = "studies/pntk/measures"
TABLES = (
    "pntk-moments",
    "pntk-summary",
    "pntk-rates",
    "pntk-exponents",
    "pntk-full",
    "pntk-learning",
    "pntk-pairs",
    "pntk-surrogates",
    "pntk-memory",
    "pntk-departures",
    "pntk-claims",
)
RECORD = {
    "type": "object",
    "required": ["moments", "parameters"],
    "properties": {"moments": {"type": "array", "items": {"type": "object", "required": ["epoch", "statistics"]}}},
}
NOISE = "noise"  # the dataset of `pair`: time does not depend on what is in an image
FITS = 0.99  # training accuracy of a network that fits its labels
MANY = 20_000  # points whose kernel is worth more than one thread
RESNETS = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")  # of torchvision, for `pair`


@dataclass(frozen=True, order=True)
class Cell(cell.Cell):
    PATTERN = "{measure}/{dataset}/{net}/width-{width}/{recipe}/seed-{seed}"

    measure: str
    dataset: str
    net: str
    width: int
    recipe: str
    seed: int


def cells(config: dict) -> list[Cell]:
    """Every cell of the study, once, whichever panels show it."""
    ours = config["pntk"]
    return sorted(
        {
            Cell(panel["measure"], panel["dataset"], net, width, recipe, seed)
            for panel in ours["panels"].values()
            for net in panel["nets"]
            for width in panel["widths"]
            for recipe in panel["recipes"]
            for seed in panel.get("seeds", ours["seeds"])
        }
    )


def uses(cell: Cell) -> dict[str, list[str]]:
    if cell.measure == "pair":
        return {MEASURES: [cell.measure], "datasets": [], "nets": []}
    return {MEASURES: [cell.measure], "datasets": [cell.dataset], "nets": [cell.net]}


def settings(config: dict, cell: Cell) -> dict:
    return of_setting(config, cell.measure, cell.dataset, cell.recipe)


def of_setting(given: dict, measure: str, dataset: str, recipe: str) -> dict:
    """Settings, equal for every network, width and seed of a setting.

    `recipe` names one and what departs from it: `sgd+loss=cross-entropy`, `sgd+train=200`. Keys are those of a recipe,
    then of a measure's protocol, then `average_pool`.
    """
    ours, name = given["pntk"], recipe.partition("+")[0]
    if name not in ours["recipes"]:
        raise UserError(registry.unknown("recipe", name, ours["recipes"]))
    if measure not in ours["measures"]:
        raise UserError(registry.unknown("measure", measure, ours["measures"]))
    found = {
        "average_pool": ours["images"]["average_pool"].get(dataset, 1),
        "statistics": ours["images"]["statistics"],
        "recipe": dict(ours["recipes"][name]),
        "protocol": dict(ours["measures"][measure]),
    }
    kinds = config.schema()["$defs"]
    pool = {"average_pool": kinds["images"]["properties"]["average_pool"]["additionalProperties"]}
    config.vary(
        recipe,
        [
            (found["recipe"], kinds["recipe"]["properties"]),
            (found["protocol"], kinds["pntk.protocol"]["properties"]),
            (found, pool),
        ],
    )
    return found


def stages(config: dict, cell: Cell) -> list[list[str]]:
    """The kernel of a whole dataset on disk is shared by several jobs, once there are the networks it is of."""
    jobs = config["pntk"]["jobs"]
    if cell.measure != "full" or jobs == 1 or settings(config, cell)["protocol"]["storage"] != "disk":
        return []
    return [["networks"], [f"tiles-{k}-of-{jobs}" for k in range(jobs)]]


def problems(config: dict) -> Iterator[tuple[str, str]]:
    ours, datasets = config["pntk"], registry.components("datasets")
    for name in ours["images"]["average_pool"]:
        if name not in datasets:
            yield "pntk.images.average_pool", registry.unknown("dataset", name, datasets)
    for panel, setting in ours["panels"].items():
        yield from ((f"pntk.panels.{panel}.{key}", problem) for key, problem in _problems(config, setting))


def _problems(config: dict, panel: dict) -> Iterator[tuple[str, str]]:
    dataset, paired = panel["dataset"], panel["measure"] == "pair"
    if problem := registry.problem(MEASURES, panel["measure"]):
        yield "measure", problem
        return
    if paired and dataset != NOISE:
        yield "dataset", f"found {dataset!r}; a pair is of {NOISE!r}"
    if not paired and (problem := registry.problem("datasets", dataset)):
        yield "dataset", problem
        return
    for net in panel["nets"]:
        if paired and net not in RESNETS:
            yield "nets", registry.unknown("net of torchvision", net, RESNETS)
        elif not paired and (problem := registry.problem("nets", net)):
            yield "nets", problem
    for recipe in panel["recipes"]:
        try:
            found = of_setting(config, panel["measure"], dataset, recipe)
        except UserError as error:
            yield "recipes", str(error)
            continue
        protocol, epochs = found["protocol"], found["recipe"]["epochs"]
        if protocol["trained"] and epochs not in protocol["moments"]:
            yield "recipes", f"{recipe}: {epochs} epochs of training, but no moment at its end: {protocol['moments']}"
        if paired:
            continue
        facts = registry.components("datasets")[dataset].constants
        if found["average_pool"] > min(facts["SHAPE"][1:]):
            yield "recipes", f"{recipe}: average_pool {found['average_pool']}, but images have {facts['SHAPE']} pixels"
        for split, size in zip(("train", "test"), facts["SIZES"], strict=True):
            if protocol[split] > size:
                yield "recipes", f"{recipe}: {protocol[split]} {split} points, but {dataset} has {size}"


def departures(given: dict) -> list[Departure]:
    """How each panel of this configuration departs from the thesis'."""
    paper = config.check({"scale": "paper"}, "the papers' values")
    return [departure for name in given["pntk"]["panels"] for departure in _departures(given, paper, name)]


def _departures(config: dict, paper: dict, name: str) -> Iterator[Departure]:
    panel, theirs = config["pntk"]["panels"][name], _counterpart(name, paper["pntk"]["panels"])
    if theirs is None:
        yield Departure(name, "a panel of this suite's own")
        return
    here, there = _flat(config, panel), _flat(paper, theirs)
    for key in here:
        if here[key] != there[key]:
            yield Departure(name, key, _text(here[key]), _text(there[key]))


def _counterpart(name: str, panels: dict) -> dict | None:
    """The papers' panel of that name; `initial-fcn` and `thesis-3.9-fcn-10000` stand for others."""
    named = (name, name.replace("initial-", "thesis-3.2-"), name.rpartition("-")[0])
    return next((panels[each] for each in named if each in panels), None)


def _flat(config: dict, panel: dict) -> dict[str, object]:
    """What a panel is, key by key; of several recipes, what each has."""
    flat = {key: panel[key] for key in ("measure", "dataset", "nets", "widths")}
    flat["seeds"] = len(panel.get("seeds", config["pntk"]["seeds"]))
    each = [of_setting(config, panel["measure"], panel["dataset"], recipe) for recipe in panel["recipes"]]
    for nested in each:
        said = {"average pooling": nested["average_pool"], "statistics": nested["statistics"]}
        for key, value in (said | nested["protocol"] | nested["recipe"]).items():
            if value not in flat.setdefault(key, []):
                flat[key].append(value)
    return {key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in flat.items()}


def _text(value: object) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)


def needs(cell: Cell, settings: dict) -> dict[str, int]:
    """Kernels decide: of all outputs in float64 for `kernels`, one N x N matrix and the test block for `full`, and for
    `pair` the gradients of as many as a thousand outputs.
    """
    protocol = settings["protocol"]
    n, m, outputs = protocol["train"], protocol["test"], protocol["outputs"] or 10
    size = {"float32": 4, "float64": 8}[protocol["precision"]]
    if cell.measure == "full":
        return {"mem_mb": 6000 + round(1.15 * size * n * (n + m) / 1e6), "threads": 8 if n >= MANY else 1}
    if cell.measure == "pair":
        return {"mem_mb": 3000 * size}
    return {"mem_mb": 6000 + round(2.5 * 8 * (n * outputs) ** 2 / 1e6)}


def work(settings: dict) -> dict[str, int]:
    """Images that a cell trains on and predicts, kernels and solves aside, for `python -m bench plan`."""
    protocol = settings["protocol"]
    epochs = settings["recipe"]["epochs"] if protocol["trained"] else 0
    moments = sum(epoch <= epochs for epoch in protocol["moments"])
    return {
        "trained": protocol["train"] * settings["recipe"]["epochs"] * protocol["trained"],
        "predicted": protocol["train"] * moments,
        "tested": moments,
    }
