"""margin: the candidates with the smallest gap between their two most probable classes (thesis 2.4, Scheffer 2001).

`rule=released` is what the thesis' released code does instead: a slice along the wrong axis makes it subtract the
smallest from the second smallest probability, and it then keeps the largest of these.
"""

import numpy as np

from bench.learn.probability import MAPS
from bench.strategies import Query, top

OPTIONS = {"map": ("minmax", "softmax"), "rule": ("top-two", "released")}


def select(query: Query, size: int, stream: np.random.Generator, map: str, rule: str) -> np.ndarray:
    ordered = MAPS[map](query.outputs).sort(1, descending=True).values  # (U, O)
    if rule == "released":
        return top(ordered[:, -2] - ordered[:, -1], size, stream)
    return top(-(ordered[:, 0] - ordered[:, 1]), size, stream)
