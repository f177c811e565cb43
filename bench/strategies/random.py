"""random: candidates drawn uniformly; the baseline of every figure."""

import numpy as np

from bench.strategies import Query


def select(query: Query, size: int, stream: np.random.Generator) -> np.ndarray:
    return stream.permutation(len(query.candidates))[:size]
