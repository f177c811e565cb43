"""badge: k-means++ over the gradients of the last layer, both uncertain and diverse (Ash et al. 2020).

The embedding of x is the gradient of the cross-entropy with the predicted class as its label, with respect to the
weights of the head: for class c the vector (p_c - 1[c = argmax]) h(x), h the penultimate features. As in the thesis'
released code, p is the softmax of the outputs, though the network is trained on squared loss. As in the code of BADGE,
the first centre is the longest embedding and the others are drawn with probability proportional to the squared distance
to the nearest centre.

An embedding is an outer product of q (O entries) and h (d entries), so its d O entries are never made: inner products
are (q.q') (h.h'), and a centre costs O(U (d + O)).
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bench.learn.train import predict
from bench.strategies import Query, top
from bench.strategies._distances import squared_distances


def select(query: Query, size: int, stream: np.random.Generator) -> np.ndarray:
    h = predict(query.net, query.candidates, of=query.net.features)  # (U, d)
    p = predict(query.net.head, h).double().softmax(1)  # (U, O)
    q = F.one_hot(p.argmax(1), p.shape[1]) - p  # the sign is the same for all, and cancels
    return kmeans_plus_plus(h.double(), q, size, stream)


def kmeans_plus_plus(features: Tensor, factors: Tensor, size: int, stream: np.random.Generator) -> np.ndarray:
    """k-means++ centres among the outer products of `factors` (U, O) and `features` (U, d), without repeats.

    Where every point left lies on a centre, the rest is drawn uniformly.
    """
    norms = features.square().sum(1) * factors.square().sum(1)  # (U,), |q h^T|^2 = |q|^2 |h|^2
    chosen = [int(top(norms, 1, stream)[0])]
    nearest = torch.full_like(norms, torch.inf)  # (U,), squared distance to the nearest centre
    while len(chosen) < size:
        centre = chosen[-1]
        inner = (factors @ factors[centre]) * (features @ features[centre])  # (U,)
        nearest = nearest.minimum(squared_distances(inner, norms, norms[centre]))  # of a centre, 0
        weights = nearest.cpu().numpy()
        if not weights.any():
            rest = np.setdiff1d(np.arange(len(norms)), chosen)
            return np.concatenate([chosen, stream.permutation(rest)[: size - len(chosen)]])
        chosen.append(int(stream.choice(len(weights), p=weights / weights.sum())))
    return np.array(chosen)
