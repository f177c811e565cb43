"""A two-layer ReLU net is close to its linearisation: within (2 B^(4/3) + B ln(1/delta)^(1/4)) / m^(1/6).

Statement: with m neurons, outer weights +-1 and inner weights W0 from N(0, I), for a fixed x of norm 1, with
probability 1 - delta over W0, |f(x; W) - f_lin(x; W)| is at most that bound for all W with |W - W0|_F <= B.
Where: the lecture, linearisation of non-smooth activations.
Refuted by: more than a fraction delta of draws whose supremum exceeds the bound; or another rate in m. The constants 2
and 1 are not claimed to be the best: the least constant that would do is measured.

The supremum is exact. Only neurons whose sign flips contribute, one whose z_j = w0_j . x moves by delta_j against its
sign at most (delta_j - |z_j|)+, and neurons of one outer sign add up. With k neurons it is best to move them equally,
B / sqrt k each, and to take those of smallest |z|, so sup = max_k (B sqrt k - sum of the k smallest |z|) / sqrt m.
"""

import numpy as np

from bench.studies.theory.task import Task

SETTINGS = ("sup",)
COLUMNS = ("m", "radius", "trial", "sup", "bound", "ratio", "constant")


def parts(sizes: dict) -> list[dict]:
    return [{"m": m} for m in sizes["widths"]]


def measure(task: Task, part: dict) -> list[dict]:
    m, rows = part["m"], []
    for trial in range(task.sizes["trials"]):
        draw = task.draw("linearisation-relu", m, trial)
        z, outer = draw.normal(size=m), draw.choice([-1, 1], size=m)  # |x| = 1, so w0 . x is normal
        for radius in task.sizes["radii"]:
            found, most = supremum(z, outer, radius), bound(m, radius, task.sizes["delta"])
            row = {"trial": trial, "radius": radius, "sup": found, "bound": most, "ratio": found / most}
            rows.append(row | {"constant": found * m ** (1 / 6) / radius ** (4 / 3)})
    return rows


def supremum(z: np.ndarray, outer: np.ndarray, radius: float) -> float:
    """sup |f - f_lin| over |W - W0|_F <= radius, for z_j = w0_j . x, (m,), and outer weights +-1, (m,)."""
    best = 0.0
    for sign in (-1, 1):
        near = np.sort(np.abs(z[outer == sign]))
        k = np.arange(1, len(near) + 1)
        best = max(best, float(np.max(radius * np.sqrt(k) - np.cumsum(near), initial=0.0)))
    return best / np.sqrt(len(z))


def bound(m: int, radius: float, delta: float) -> float:
    return (2 * radius ** (4 / 3) + radius * np.log(1 / delta) ** 0.25) / m ** (1 / 6)
