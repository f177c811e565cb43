"""coreset: the candidates that, with the labelled images, cover the pool best: greedy k-centre (Sener & Savarese 2018).

Again and again the candidate farthest, in penultimate features, from all labelled and all chosen images. The radius so
reached is at most twice the best possible. The paper refines it by mixed-integer programming; that is left out, as in
the code of BADGE, which has this strategy as an arm of ALBL, the NPC paper's baseline.
"""

import numpy as np
import torch
from torch import Tensor

from bench.learn.train import predict
from bench.strategies import Query, top
from bench.strategies._distances import squared_distances

BLOCK = 1000  # labelled images compared with all candidates at once


def select(query: Query, size: int, stream: np.random.Generator) -> np.ndarray:
    candidates, labelled = (
        predict(query.net, images, of=query.net.features).double()
        for images in (query.candidates, query.labelled_images)
    )
    return greedy_k_centre(candidates, labelled, size, stream)


def greedy_k_centre(points: Tensor, centres: Tensor, size: int, stream: np.random.Generator) -> np.ndarray:
    """`size` of `points` (U, d), each the farthest from `centres` (L, d) and from those before it."""
    norms = points.square().sum(1)  # (U,)
    nearest = torch.full_like(norms, torch.inf)  # (U,), squared distance to the nearest centre
    for block in centres.split(BLOCK):  # (B, d)
        squared = squared_distances(points @ block.T, norms[:, None], block.square().sum(1))  # (U, B)
        nearest = nearest.minimum(squared.amin(1))
    chosen: list[int] = []
    while len(chosen) < size:
        farthest = int(top(nearest, 1, stream)[0])
        chosen.append(farthest)
        nearest = nearest.minimum(squared_distances(points @ points[farthest], norms, norms[farthest]))
        nearest[chosen] = -1  # even behind duplicates of a centre, at distance 0
    return np.array(chosen)
