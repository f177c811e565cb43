"""naive: look-ahead by retraining the network with each candidate and its pseudo-label (thesis 2.4).

The thesis says 15 epochs and no more. Each candidate starts from the trained network's weights and batch-norm
statistics, with a constant tenth of the recipe's learning rate and the rest of the recipe, and all candidates see the
same batches. The score is (2.13) on all candidates. The released code, at its constant rate of 0.3, does not
put the weights back between two tries.

4,000 candidates take a CPU many hours, even with a narrow network. `timed=sample` retrains for 4 random candidates, so
that the time of a query can be extrapolated, and buys AT RANDOM: its accuracy says nothing of naive look-ahead.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from bench.core.errors import UserError
from bench.core.progress import counter
from bench.learn import train
from bench.strategies import Query, top

OPTIONS = {"epochs": 15, "timed": ("all", "sample")}
TIMING_ONLY = {"timed": "sample"}  # the option with which only the seconds of the query mean anything
SAMPLE = 4  # candidates retrained for the time
SAVE_EVERY = 20  # candidates, a minute or so of work


def select(query: Query, size: int, stream: np.random.Generator, epochs: int, timed: str) -> np.ndarray:
    seed = int(stream.integers(2**63))
    if timed == "all":
        return top(scores(query, range(len(query.candidates)), epochs, seed), size, stream)
    sample = stream.permutation(len(query.candidates))[:SAMPLE]
    scores(query, sample, epochs, seed)
    query.notes |= {"scored": len(sample), "candidates": len(query.candidates)}
    return stream.permutation(len(query.candidates))[:size]


def scores(query: Query, positions: Sequence[int], epochs: int, seed: int) -> Tensor:
    """sum_x |f_{L+(x', y')}(x) - f_L(x)| for the candidates x' at `positions`, float64."""
    if query.recipe is None:
        raise UserError("naive retrains: its Query must come with the recipe the network was trained by")
    recipe = replace(query.recipe, lr=query.recipe.lr / 10, schedule="constant", epochs=epochs)
    guess = query.outputs.argmax(1)  # y', (U,)
    found: list[float] = list(query.saved.get("scores", []))
    with counter("  retrained", len(positions) - len(found), shown=len(positions) > 100) as (tick, _):
        for i in positions[len(found) :]:
            net = copy.deepcopy(query.net)
            x = torch.cat([query.labelled_images, query.candidates[i : i + 1]])
            y = torch.cat([query.labelled_labels, guess[i : i + 1]])
            try:
                train.fit(net, x, y, recipe, seed, 0, shown=False)
            except train.Diverged:
                raise UserError(
                    f"naive: retraining with candidate {i} diverged at learning rate {recipe.lr:g}, a tenth of the "
                    "recipe's: lower the recipe's lr"
                ) from None
            found.append((train.predict(net, query.candidates).double() - query.outputs).norm(dim=1).sum().item())
            if len(found) % SAVE_EVERY == 0:
                query.save({"scores": found})
            tick()
    return torch.tensor(found, dtype=torch.float64)
