"""What a scale costs: its jobs, and hours on this machine, measured rather than guessed.

A setting (dataset, net, width, recipe) whose cells have run here is priced at their mean time. Any other is priced by
timing one training step and one prediction of its network on random images, and counting how many a cell makes in
training and evaluation; what its strategies do in queries is not counted.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch

from bench import device, grid, nets, provenance, records, registry
from bench.progress import say
from bench.seeds import torch_stream
from bench.train import Recipe, loss_of

PROBE = {"cpu": 8, "cuda": 128}  # images timed at once; the cost per image is constant beyond that


def prices(config: dict, where: str = "auto") -> pd.DataFrame:
    """One row per setting: its jobs, those not yet done, seconds a job, and how that is known."""
    chosen = torch.device(device.kind(where))
    device.settle(chosen, threads=1)  # as many as a cell of the workflow has
    jobs: dict[tuple, list] = defaultdict(list)
    for cell in grid.cells(config["lookahead"]["panels"], config["seeds"]):
        jobs[cell.dataset, cell.net, cell.width, cell.recipe].append(cell)
    rows = []
    for (dataset, net, width, recipe), cells in jobs.items():
        left = [cell for cell in cells if not grid.record_path(config["scale"], "lookahead", cell).is_file()]
        settings = grid.settings(config, dataset, recipe)
        seconds, how = _measured(cells, settings, chosen.type), "measured"
        if seconds is None:
            say(f"timing {net} of width {width} on {dataset} ...")
            seconds, how = _probed(dataset, net, width, settings, chosen), "probed"
        rows.append((config["scale"], dataset, net, width, recipe, len(cells), len(left), seconds, how, chosen.type))
    columns = ["scale", "dataset", "net", "width", "recipe", "jobs", "left", "seconds_per_job", "how", "device"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(processor=provenance.device_name(chosen), threads=torch.get_num_threads())


def report(table: pd.DataFrame) -> str:
    """The prices for people."""
    hours = table["left"] * table["seconds_per_job"] / 3600
    shown = table[["dataset", "net", "width", "recipe", "jobs", "left"]].assign(
        **{"minutes/job": (table["seconds_per_job"] / 60).round(1), "hours left": hours.round(1), "how": table["how"]}
    )
    first = table.iloc[0]
    probed = (table["how"] == "probed").any()
    return (
        f"scale {first['scale']} on {first['processor']} ({first['device']}, {first['threads']} threads)\n"
        f"{shown.to_string(index=False)}\n"
        f"{table['jobs'].sum()} jobs, {hours.sum():.1f} hours left one at a time; k at a time take about 1/k of that"
        + ("\nprobed: training and evaluation only, queries are not counted" if probed else "")
    )


def _measured(cells: list, settings: dict, kind: str) -> float | None:
    """Mean seconds of cells of this setting that ran on this kind of device, at any scale."""
    times = []
    for cell in cells:
        for path in Path("results").glob(f"*/runs/lookahead/{cell}.json"):
            record, meta = records.read(path), records.read_json(grid.meta_path(path))
            if record["settings_hash"] == grid.fingerprint(settings) and record["device"] == kind:
                times.append(meta["seconds"]["total"])
    return sum(times) / len(times) if times else None


def _probed(dataset: str, net: str, width: int, settings: dict, chosen: torch.device) -> float:
    """Seconds of one cell, from the time per image of a training step and of a prediction."""
    facts, recipe = registry.components("datasets")[dataset].constants, Recipe(**settings["recipe"])
    pool, protocol, batch = settings["average_pool"], settings["protocol"], PROBE[chosen.type]
    shape = (facts["SHAPE"][0], *(side // pool for side in facts["SHAPE"][1:]))
    model = nets.build(net, shape, facts["CLASSES"], width, torch_stream(0, "init")).to(chosen)
    x = torch.rand(batch, *shape, generator=torch_stream(0, "data")).to(chosen)
    y = torch.zeros(batch, dtype=torch.long, device=chosen)

    def predict() -> None:
        with torch.no_grad():
            model(x)

    step = _time(lambda: loss_of(recipe.loss, model(x), y).backward(), chosen) / batch
    forward = _time(predict, chosen) / batch
    labels = [protocol["initial"] + cycle * protocol["query"] for cycle in range(protocol["cycles"])]
    trained = sum(count * recipe.epochs for count in labels)
    predicted = sum(labels) + protocol["cycles"] * (facts["SIZES"][1] + protocol["subset"])
    return trained * step + predicted * forward


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
