"""Thesis chapter 2: does choosing labels by the look-ahead strategy beat the alternatives?

One cell is one seed of one strategy on one network and dataset: the loop of Algorithm 1,

    train on the labelled set -> evaluate -> let the strategy query a fresh candidate subset -> add the labels,

with the protocol of section 2.4 and of the released code: the initial set is uniform, not class-balanced; after every
cycle the unqueried candidates go back, the pool is shuffled and a new subset taken; weights (and batch-norm statistics)
are kept from cycle to cycle, optimiser and schedule are new. The accuracy recorded is the last epoch's.
"""

import math
from dataclasses import replace

import numpy as np
import torch

from bench import nets, strategies
from bench.core.errors import UserError
from bench.core.progress import say
from bench.core.seeds import stream, torch_stream
from bench.learn.augment import flip_crop
from bench.learn.data import Data
from bench.learn.train import Diverged, Recipe, evaluate
from bench.strategies._bought import bought
from bench.studies.lookahead import Cell, oversized
from bench.studies.lookahead.timed import timing_only

# Where a run stands: cycles done, the network after them, and within a cycle the training or the query under way
FRESH = {"cycles": [], "net": None, "training": None, "query": None}


def run(cell: Cell, settings: dict, data: Data, device: torch.device, journal) -> dict:
    """All cycles of a cell; if the loss diverges, all of them again at the recipe's fallback rate (thesis A.6)."""
    if problem := oversized(settings["protocol"], data.size("train")):
        raise UserError(f"{data.name}: {problem}")
    recipe = Recipe(**settings["recipe"])
    state = journal.state or {"diverged": None} | FRESH
    while True:
        lr = recipe.lr if state["diverged"] is None else recipe.fallback_lr
        try:
            return _cycles(cell, settings["protocol"], replace(recipe, lr=lr), data, device, journal, state)
        except Diverged as failure:
            if state["diverged"] is not None or recipe.fallback_lr is None:
                key = f"lookahead.recipes.{cell.recipe.partition('+')[0]}.fallback_lr"
                raise UserError(f"{cell}: {failure}; set {key} below it, or lower the lr") from None
            say(f"{failure}; starting again at the fallback rate {recipe.fallback_lr:g}")
            diverged = {"cycle": failure.cycle, "epoch": failure.epoch, "learning_rate": failure.lr}
            state = {"diverged": diverged} | FRESH
            journal.restart(state)


def _cycles(cell: Cell, protocol: dict, recipe: Recipe, data: Data, device: torch.device, journal, state: dict) -> dict:
    initial = stream(cell.seed, "data", "initial").permutation(data.size("train"))[: protocol["initial"]]
    test_images, test_labels = data.images("test"), data.labels("test")
    net = _network(cell, data, device, cycle=0)
    if state["net"] is not None:
        net.load_state_dict(state["net"])
    for cycle in range(len(state["cycles"]), protocol["cycles"]):
        if protocol["start"] == "cold" and cycle > 0:
            net = _network(cell, data, device, cycle)
        labelled = np.concatenate([initial, *(done["queried"] for done in state["cycles"])]).astype(
            int
        )  # in order bought
        x, y = data.images("train", labelled), data.labels("train", labelled)
        say(f"cycle {cycle + 1}/{protocol['cycles']}: {len(labelled)} labels")

        asking = state["query"]
        with journal.clock("train", cycle):
            if asking:
                net.load_state_dict(asking["net"])
                net.eval()
            save = lambda training: journal.save(state | {"training": training})  # noqa: B023, E731
            saving = {"resume": state["training"], "save": save, "save_every": journal.save_every}
            if not asking:
                strategies.fit(cell.strategy, net, x, y, recipe, cell.seed, cycle, **saving)
        with journal.clock("evaluate", cycle):
            test_accuracy, test_loss = evaluate(net, test_images, test_labels, recipe.loss)
            train_accuracy, train_loss = evaluate(net, x, y, recipe.loss)
        if not (math.isfinite(test_loss) and math.isfinite(train_loss)):  # finite in training mode, not in evaluation
            raise Diverged(cycle, recipe.epochs - 1, recipe.lr)
        say(f"  test accuracy {test_accuracy:.4f}, training loss {train_loss:.2e}")
        queried, notes, subset, about = [], {}, [], {}
        if cycle + 1 < protocol["cycles"]:  # nothing is trained on what the last cycle would buy
            subset = _subset(cell.seed, cycle, labelled, data.size("train"), protocol["subset"])
            views = (protocol["view"], recipe, cell.seed, cycle)
            known, candidates = _view(x, "labelled", *views), _view(data.images("train", subset), "candidates", *views)
            with journal.clock("query", cycle):
                oracle = data.labels("train", subset).tolist().__getitem__
                so_far = asking["found"] if asking else {}
                save = lambda found: journal.save(state | {"query": {"net": net.state_dict(), "found": found}})  # noqa: B023, E731
                query = strategies.Query(net, known, y, candidates, recipe, oracle, notes, so_far, save)
                chosen = strategies.select(cell.strategy, query, protocol["query"], stream(cell.seed, "query", cycle))
            queried = subset[chosen].tolist()
            with journal.clock("evaluate", cycle):
                about = bought(query, chosen, data.labels("train", subset))
        done = {
            "cycle": cycle,
            "labelled": len(labelled),
            "test_accuracy": test_accuracy,
            "test_loss": test_loss,
            "train_accuracy": train_accuracy,
            "train_loss": train_loss,
            "candidates": len(subset),
            "queried": queried,
            "bought": about,
            "notes": notes,
        }
        state = {**state, "cycles": [*state["cycles"], done], "net": net.state_dict()}
        state |= {"training": None, "query": None}
        journal.save(state)
    return {
        "cycles": state["cycles"],
        "initial": initial.tolist(),
        "learning_rate": recipe.lr,
        "diverged": state["diverged"],
        "only_timed": timing_only(cell.strategy),
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
    }


def _network(cell: Cell, data: Data, device: torch.device, cycle: int) -> torch.nn.Module:
    generator = torch_stream(cell.seed, "init", cycle)
    net = nets.build(cell.net, data.shape, data.classes, cell.width, generator)
    net = strategies.network(cell.strategy, net, generator)
    return net.to(device, memory_format=torch.channels_last)


def _subset(seed: int, cycle: int, labelled: np.ndarray, train_size: int, size: int) -> np.ndarray:
    """Candidates of a cycle: the first `size` of the reshuffled unlabelled pool."""
    pool = np.setdiff1d(np.arange(train_size), labelled)
    return stream(seed, "data", "subset", cycle).permutation(pool)[:size]


def _view(images: torch.Tensor, which: str, view: str, recipe: Recipe, seed: int, cycle: int) -> torch.Tensor:
    """What strategies see of labelled images and candidates: all of it, or one augmented view each (released code)."""
    if view == "clean" or recipe.augment == "none":
        return images
    return flip_crop(images, torch_stream(seed, "augment", "view", which, cycle))
