"""npc: of m random batches the one whose Gram matrix with the labelled images is best conditioned (NPC Algorithm 1).

A batch is scored by the smallest eigenvalue of K on labelled + batch, N images. K is the tangent kernel of the last
layer, every O x O block replaced by its trace (3.4): K(x, x') = O (h(x).h(x') + 1), h the d penultimate features. The
weights of the head drop out, so predictions have no say. Batches are uniform, without repeats. Features and eigenvalues
are in float64; only images in some batch are looked at.

The rank of K is at most d + 1. With more images than that, on CIFAR-100 from the first query on, lambda_min is zero for
every batch, and an argmax of what a solver returns is one over its rounding. Hence

    variant  nonzero     the min(N, rank)-th largest eigenvalue: lambda_min, or else the smallest that can be non-zero
             paper       lambda_min as stated (3). If N > rank all batches tie at 0: the first is taken, which is random
             full        lambda_min of the pNTK of all layers, whose rank may be the number of parameters; it takes a
                         kernel on all images in batches
             logdet      log det(K + eps I), which also counts the other eigenvalues
             normalised  `nonzero` of rows of unit length, as in the example of 3.3, where a pair scores 1 - |cos|

`rank` is d + 1 less the units that are zero, or copies of others, on all these images. m = 1,000 is the example of 3.4.

Noted: the `score`; the `rank`; `tied`, how many batches rounding cannot tell from the best; `rounding`, whether the
score itself is no more than that, so that the batch is as good as drawn at random.
"""

import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.core.errors import UserError
from bench.kernels import extreme
from bench.kernels.empirical import gram
from bench.learn.train import predict
from bench.strategies import Query
from bench.strategies._lookahead import BUDGET

OPTIONS = {"variant": ("nonzero", "paper", "full", "logdet", "normalised"), "m": 1000}


def select(query: Query, size: int, stream: np.random.Generator, variant: str, m: int) -> np.ndarray:
    if size < 1 or m < 1:
        raise UserError(f"npc: found {m} batches of {size} labels; allowed: at least 1 of at least 1")
    batches = np.stack([stream.choice(len(query.candidates), size, replace=False) for _ in range(m)])  # (m, Q)
    drawn, places = np.unique(batches, return_inverse=True)
    images = torch.cat([query.labelled_images, query.candidates[torch.from_numpy(drawn)]]).double()
    labelled = len(query.labelled_images)
    rows = torch.from_numpy(places.reshape(batches.shape)) + labelled  # (m, Q), of `images`
    best, notes = choose(copy.deepcopy(query.net).double(), images, labelled, rows, variant)
    # Four digits: enough for people, and the last ones depend on the number of threads
    query.notes |= notes | {"score": float(f"{best.score:.4g}"), "tied": best.tied}
    return batches[best.batch]


def choose(net: nn.Module, images: Tensor, labelled: int, batches: Tensor, variant: str) -> tuple[extreme.Best, dict]:
    """The best of `batches` (m, Q), rows of `images`, the first of which are `labelled`; and what is to be noted."""
    if variant == "full":
        best = extreme.of_kernel(gram(net, images, output="pseudo", budget=BUDGET), labelled, batches)
        return best, {"rounding": best.score <= best.noise}
    features = gradients(net, images)
    if variant == "normalised":
        features = F.normalize(features)
    features = extreme.span(features)  # (n, rank)
    rank = features.shape[1]
    if variant == "logdet":
        return extreme.log_determinant(features, labelled, batches), {"rank": rank, "rounding": False}
    if variant == "paper" and labelled + batches.shape[1] > rank:
        return extreme.Best(0, 0.0, len(batches), 0.0), {"rank": rank, "rounding": True}
    best = extreme.of_features(features, labelled, batches)
    return best, {"rank": rank, "rounding": best.score <= best.noise}


def gradients(net: nn.Module, images: Tensor) -> Tensor:
    """Rows whose inner products are the traces of the last layer's tangent kernel, sqrt(O) (h, 1), (n, d + 1)."""
    h = predict(net, images, of=net.features)  # (n, d)
    return net.head.out_features**0.5 * F.pad(h, (0, 1), value=1.0)
