"""For unit vectors at an angle theta, E_w[s'(w . x) s'(w . x')] = 1/2 - theta / (2 pi), s the ReLU and w ~ N(0, I).

Statement: that closed form, theta = arccos(x . x'); a net of m neurons has the mean over its neurons instead, so its
tangent kernel x . x' (1/m) sum_j s'(w_j . x) s'(w_j . x') is within O(m^(-1/2)) of x . x' (1/2 - theta / (2 pi)).
Where: the lecture, arccos kernel.
Refuted by: a frequency outside the binomial spread around the closed form, at any angle from 0 to 180 degrees; or
another rate in m.
"""

import numpy as np

from bench.studies.theory.experiments import _arccos
from bench.studies.theory.task import Task

SETTINGS = ("monte-carlo",)
COLUMNS = ("m", "angle", "trials", "closed", "frequency", "z", "error", "spread")


def parts(sizes: dict) -> list[dict]:
    return [{"m": m} for m in sizes["widths"]]


def measure(task: Task, part: dict) -> list[dict]:
    m, trials, d = part["m"], task.sizes["trials"], task.sizes["dimension"]
    draw, degrees = task.draw("arccos", m), np.array(task.sizes["angles"], dtype=float)
    x, away = plane(draw, d)  # w, x and away are independent, so any plane will do
    turned = np.cos(np.radians(degrees))[:, None] * x + np.sin(np.radians(degrees))[:, None] * away  # (angles, d)
    turned[degrees == 180] = -x  # cos and sin round
    found = np.array([both_active(draw.normal(size=(m, d)), x, turned) for _ in range(trials)])  # (trials, angles)
    rows = []
    for degree, frequencies in zip(degrees, found.T, strict=True):
        p = float(_arccos.slopes(np.radians(degree)))
        error = np.sqrt(np.mean((frequencies - p) ** 2))
        row = {"angle": degree, "trials": trials, "closed": p, "frequency": frequencies.mean(), "error": error}
        rows.append(row | {"z": z(frequencies.mean(), p, m * trials), "spread": np.sqrt(p * (1 - p) / m)})
    return rows


def plane(draw: np.random.Generator, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Two orthogonal unit vectors of R^d; on a line, the second is 0 and only 0 and 180 degrees mean anything."""
    x, away = draw.normal(size=(2, d))
    x /= np.linalg.norm(x)
    away = away - (away @ x) * x
    return x, away / np.linalg.norm(away) if d > 1 else np.zeros(1)


def both_active(w: np.ndarray, x: np.ndarray, turned: np.ndarray) -> np.ndarray:
    """The share of neurons w (m, d) that are active at x (d,) and at each of turned (angles, d)."""
    return ((w @ x > 0)[:, None] & (w @ turned.T > 0)).mean(0)


def z(frequency: float, p: float, n: int) -> float:
    """Distance in standard errors of n draws; where the law leaves no spread, half a draw is the least error."""
    return float(abs(frequency - p) / np.sqrt(max(p * (1 - p) / n, (0.5 / n) ** 2)))
