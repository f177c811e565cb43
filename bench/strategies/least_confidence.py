"""least-confidence: the candidates whose most probable class is least probable (an arm of ALBL in the NPC paper)."""

import numpy as np

from bench.strategies import Query, top


def select(query: Query, size: int, stream: np.random.Generator) -> np.ndarray:
    return top(-query.outputs.softmax(1).amax(1), size, stream)
