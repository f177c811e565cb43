"""The arccos kernel is universal on unit vectors whose last coordinate is 1/sqrt 2, and not on the whole sphere.

Statement: on {x in R^(d+1): |x| = 1, x_(d+1) = 1/sqrt 2} the kernel x . x' (1/2 - arccos(x . x') / (2 pi)) is
universal. A universal kernel is strictly positive definite: a Gram matrix of distinct points has full rank.
Where: the lecture, arccos kernel.
Refuted by: distinct points of that set whose Gram matrix has an eigenvalue not above rounding.

What the constant coordinate is for: u (1/2 - arccos(u) / (2 pi)) = u/4 + u arcsin(u) / (2 pi), so on the whole sphere
the only odd functions in the kernel's space are linear. Of n pairs of antipodes in R^d the Gram matrix has rank
n + min(n, d), not 2n, and k(x, -x) = 0. The same pairs with the constant coordinate are no antipodes. Settings: the
points as they are (`sphere`), or (x, 1) / sqrt 2 (`constant`), which is the lecture's set.
"""

import numpy as np

from bench.studies.theory.experiments import _arccos
from bench.studies.theory.task import Task

SETTINGS = ("sphere", "constant")
COLUMNS = ("d", "points", "n", "smallest", "largest", "margin", "rank", "predicted", "off", "unlearnt")
EPS = np.finfo(float).eps


def parts(sizes: dict) -> list[dict]:
    return [{"d": d} for d in sizes["dimensions"]]


def measure(task: Task, part: dict) -> list[dict]:
    d, rows = part["d"], []
    for n in task.sizes["points"]:
        half = _arccos.sphere(task.draw("universality", d, n), n // 2, d)
        other = _arccos.sphere(task.draw("universality", "others", d, n), n - n // 2, d)
        sets = {"random": np.concatenate([half, other]), "antipodal": np.concatenate([half, -half])}
        for name, x in sets.items():
            placed = constant(x) if task.setting == "constant" else x
            found = gram(placed, x[:, 0] ** 3)  # a target that is odd and not linear
            full = rank(task.setting, name, x)
            rows.append({"points": name, "n": len(x)} | found | {"predicted": full, "off": abs(found["rank"] - full)})
    return rows


def constant(x: np.ndarray) -> np.ndarray:
    """(x, 1) / sqrt 2: unit vectors (n, d) -> the lecture's set (n, d + 1)."""
    return np.concatenate([x, np.ones((len(x), 1))], axis=1) / np.sqrt(2)


def rank(setting: str, points: str, x: np.ndarray) -> int:
    """What the expansion above says of distinct points."""
    n, d = x.shape
    return n // 2 + min(n // 2, d) if (setting, points) == ("sphere", "antipodal") else n


def gram(x: np.ndarray, targets: np.ndarray) -> dict:
    """Eigenvalues of the Gram matrix of x (n, d), how far the least is above rounding, what is lost of targets (n,).

    An eigenvalue up to n eps lambda_max is rounding; `unlearnt` is the share of the targets' norm in its directions.
    """
    eigs, vectors = np.linalg.eigh(_arccos.kernel(x, x))
    floor = len(x) * EPS * eigs[-1]
    lost = vectors[:, eigs <= floor].T @ targets
    found = {"smallest": eigs[0], "largest": eigs[-1], "margin": eigs[0] / floor, "rank": int(np.sum(eigs > floor))}
    return found | {"unlearnt": np.linalg.norm(lost) / np.linalg.norm(targets)}
