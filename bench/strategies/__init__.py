"""Acquisition strategies, one module each, found by bench.core.registry.

A strategy module defines `select(query, size, stream, **options)`: the positions, among the candidates, of the `size`
images whose labels it buys. `stream` is its only source of randomness, ties included. tests/test_strategies.py runs
the same contract on every module found here.

A strategy that changes what is trained, or how, also defines one or both of

    network(net, generator, **options) -> nn.Module    what takes the place of the setting's network
    fit(net, x, y, recipe, seed, cycle, *, resume, save, save_every, **options)    as `bench.learn.train.fit`
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from bench.core import registry
from bench.core.errors import UserError
from bench.learn.train import Recipe, predict
from bench.learn.train import fit as usual_fit

SAME = 1e-8  # of the largest score, or of 1 if that is more: above rounding, far below what tells candidates apart


@dataclass
class Query:
    """What a strategy may look at in one cycle."""

    net: nn.Module  # trained on the labelled images, evaluation mode
    labelled_images: Tensor  # (L, C, H, W)
    labelled_labels: Tensor  # (L,)
    candidates: Tensor  # (U, C, H, W)
    recipe: Recipe | None = None  # how the network was trained
    oracle: Callable[[int], int] | None = None  # the true label of a candidate; asking for it is buying it
    notes: dict = field(default_factory=dict)  # what the strategy found out, for the record: numbers, strings, lists
    saved: dict = field(default_factory=dict)  # what a killed attempt at this query had handed to `save`
    save: Callable[[dict], None] = lambda found: None  # for queries of hours: where to continue after a kill

    @cached_property
    def outputs(self) -> Tensor:
        """The network's outputs on the candidates, float64 (U, O)."""
        outputs = predict(self.net, self.candidates).double()
        if not torch.isfinite(outputs).all():
            raise UserError("the network's outputs contain NaN or infinity: its training has diverged")
        return outputs


def select(strategy: str, query: Query, size: int, stream: np.random.Generator) -> np.ndarray:
    """Positions of the `size` candidates that the named strategy chooses."""
    module, options = registry.load("strategies", strategy)
    if size > len(query.candidates):
        raise UserError(f"{strategy}: asked for {size} labels from {len(query.candidates)} candidates")
    bought: set[int] = set()
    if query.oracle is not None:
        ask = query.oracle
        query = replace(query, oracle=lambda position: bought.add(int(position)) or ask(int(position)))
    chosen = np.asarray(module.select(query, size, stream, **options))
    if chosen.shape != (size,) or len(np.intersect1d(chosen, np.arange(len(query.candidates)))) < size:
        raise UserError(f"{strategy}: its select() must return {size} different positions, returned {chosen.tolist()}")
    if unpaid := sorted(bought - set(chosen.tolist())):
        raise UserError(f"{strategy}: its select() asked for the labels of {unpaid} and did not return them")
    return chosen


def network(strategy: str, net: nn.Module, generator: torch.Generator) -> nn.Module:
    """What the named strategy trains and queries: the setting's network, unless it brings its own."""
    module, options = registry.load("strategies", strategy)
    return module.network(net, generator, **options) if hasattr(module, "network") else net


def fit(strategy: str, net: nn.Module, x: Tensor, y: Tensor, recipe: Recipe, seed: int, cycle: int, **saving) -> None:
    """Train as `bench.learn.train.fit` does, unless the named strategy has a way of its own."""
    module, options = registry.load("strategies", strategy)
    if hasattr(module, "fit"):
        module.fit(net, x, y, recipe, seed, cycle, **saving, **options)
    else:
        usual_fit(net, x, y, recipe, seed, cycle, **saving)


def top(scores: Tensor, size: int, stream: np.random.Generator) -> np.ndarray:
    """Positions of the `size` largest of `scores` (U,), best first, ties in random order.

    Scores equal to within `SAME` are ties: those of two copies of an image differ by the order of sums, which must not
    choose between them.
    """
    values = scores.cpu().numpy()
    if not np.isfinite(values).all():
        raise UserError(f"{(~np.isfinite(values)).sum()} of {len(values)} acquisition scores are not finite")
    steps = np.round(values / max(1.0, np.abs(values).max()) / SAME)
    return np.lexsort((stream.random(len(values)), -steps))[:size]
