"""least-confidence: the candidates whose most probable class is least probable (an arm of ALBL in the NPC paper)."""

import numpy as np

from bench.learn.probability import MAPS
from bench.strategies import Query, top

OPTIONS = {"map": ("softmax", "simplex", "minmax")}


def select(query: Query, size: int, stream: np.random.Generator, map: str) -> np.ndarray:
    return top(-MAPS[map](query.outputs).amax(1), size, stream)
