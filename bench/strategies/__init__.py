"""Acquisition strategies, one module each, found by bench.registry.

A strategy module defines `select(query, size, stream, **options)`: the positions, among the candidates, of the `size`
images whose labels it buys. `stream` is its only source of randomness, ties included. tests/test_strategies.py runs
the same contract on every module found here.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor, nn

from bench import registry
from bench.errors import UserError
from bench.train import predict


@dataclass
class Query:
    """What a strategy may look at in one cycle."""

    net: nn.Module  # trained on the labelled images, evaluation mode
    labelled_images: Tensor  # (L, C, H, W)
    labelled_labels: Tensor  # (L,)
    candidates: Tensor  # (U, C, H, W)

    @cached_property
    def outputs(self) -> Tensor:
        """The network's outputs on the candidates, float64 (U, O)."""
        return predict(self.net, self.candidates).double()


def select(strategy: str, query: Query, size: int, stream: np.random.Generator) -> np.ndarray:
    """Positions of the `size` candidates that the named strategy chooses."""
    module, options = registry.load("strategies", strategy)
    if size > len(query.candidates):
        raise UserError(f"{strategy}: asked for {size} labels from {len(query.candidates)} candidates")
    chosen = np.asarray(module.select(query, size, stream, **options))
    if chosen.shape != (size,) or len(np.intersect1d(chosen, np.arange(len(query.candidates)))) < size:
        raise UserError(f"{strategy}: its select() must return {size} different positions, returned {chosen.tolist()}")
    return chosen


def top(scores: Tensor, size: int, stream: np.random.Generator) -> np.ndarray:
    """Positions of the `size` largest of `scores` (U,), best first, ties in random order."""
    values = scores.cpu().numpy()
    if not np.isfinite(values).all():
        raise UserError(f"{(~np.isfinite(values)).sum()} of {len(values)} acquisition scores are not finite")
    return np.lexsort((stream.random(len(values)), -values))[:size]
