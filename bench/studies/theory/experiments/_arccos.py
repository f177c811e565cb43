"""The arccos kernel of the lecture: the expected tangent kernel of the inner weights of a two-layer ReLU net."""

import numpy as np
from scipy.spatial.distance import cdist


def angles(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Angles between unit vectors x (n, d) and y (m, d); (n, m). Near 0 and pi, where arccos is not, exact."""
    return 2 * np.arctan2(cdist(x, y), cdist(x, -y))


def slopes(angle: np.ndarray) -> np.ndarray:
    """E_w[s'(w . x) s'(w . x')] = 1/2 - angle / (2 pi)."""
    return 0.5 - angle / (2 * np.pi)


def kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x . x' (1/2 - arccos(x . x') / (2 pi)) of unit vectors; (n, m)."""
    return (x @ y.T) * slopes(angles(x, y))


def sphere(draw: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Uniform points on the unit sphere of R^d; (n, d)."""
    x = draw.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)
