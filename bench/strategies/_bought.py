"""What a strategy bought in one query, in numbers that explain its accuracy.

classes    labels bought of each class
wrong      share of the bought that the network gets wrong, `wrong_of_all` of all candidates
distance   from a bought image to the nearest labelled one, over that of the average candidate; in pixels, since a
           distance that all strategies share must not depend on what each has trained; null without labelled images
margin     share of the bought that are among as many candidates whose two largest outputs are closest; for any map to
           probabilities, about what `margin` would have bought
"""

import numpy as np
import torch
from torch import Tensor

from bench.strategies import Query


def bought(query: Query, chosen: np.ndarray, labels: Tensor) -> dict:
    """Of the candidates at positions `chosen`; `labels` (U,) are the true ones, of all candidates."""
    wrong = query.outputs.argmax(1) != labels  # (U,)
    nearest = None
    if len(query.labelled_images):
        nearest = torch.cdist(query.candidates.flatten(1), query.labelled_images.flatten(1)).amin(1)  # (U,)
    first, second = query.outputs.topk(2, 1).values.T  # (U,) each
    closest = (first - second).argsort(stable=True)[: len(chosen)].cpu().numpy()
    at = torch.from_numpy(chosen).to(labels.device)
    return {
        "classes": torch.bincount(labels[at], minlength=query.outputs.shape[1]).tolist(),
        "wrong": _mean(wrong[at]),
        "wrong_of_all": _mean(wrong),
        "distance": round(_mean(nearest[at]) / _mean(nearest), 6) if nearest is not None and nearest.any() else None,
        "margin": len(np.intersect1d(chosen, closest)) / len(chosen),
    }


def _mean(values: Tensor) -> float:
    return values.double().mean().item()
