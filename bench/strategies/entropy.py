"""entropy: the candidates whose predicted class distribution has the largest Shannon entropy.

The thesis does not say how outputs of a network trained on squared loss become probabilities; its released code uses
`minmax`. `softmax` is the usual reading.
"""

import numpy as np
import torch

from bench.learn.probability import MAPS
from bench.strategies import Query, top

OPTIONS = {"map": ("minmax", "softmax")}


def select(query: Query, size: int, stream: np.random.Generator, map: str) -> np.ndarray:
    p = MAPS[map](query.outputs)  # (U, O)
    return top(-torch.xlogy(p, p).sum(1), size, stream)  # 0 log 0 = 0
