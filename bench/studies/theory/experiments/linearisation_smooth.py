"""A two-layer net of a smooth activation is close to its linearisation: within beta / (2 sqrt m) |W - W0|_F^2.

Statement: f(x; W) = m^(-1/2) sum_j a_j s(w_j . x), |a_j| <= 1, |x| <= 1, beta = max |s''|; then for all W and W0
|f(x; W) - f_lin(x; W)| is at most that bound.
Where: the lecture, linearization quality.
Refuted by: one W whose distance exceeds the bound; or a distance that falls more slowly than m^(-1/2) at a fixed
|W - W0|_F = B. The bound is for all W, so the rate and the constant are needed if one direction attains them.

Directions of W - W0, all of norm B:
    random        normal in all coordinates
    equal         every neuron moves by B / sqrt m along x, to the side on which its own term is larger
    adversarial   only the k neurons of largest a_j s''(z_j) of one sign move, B / sqrt k each along x; best k
    descent       gradient descent on the squared loss of a few points, where its path first leaves the ball of radius B
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from bench.studies.theory.task import Task

SETTINGS = ("erf", "tanh", "sigmoid", "softplus", "gelu")
COLUMNS = ("m", "direction", "radius", "trials", "distance", "bound", "ratio")
DIRECTIONS = ("random", "equal", "adversarial", "descent")
STEP = 0.2  # of n / lambda_max, half the largest stable step: a path in small steps
BEYOND = 2.0  # labels are so large that the linear model would move this far, in units of the largest radius

Function = Callable[[np.ndarray], np.ndarray]


class Activation(NamedTuple):
    value: Function
    slope: Function
    curvature: Function
    beta: float  # max |curvature|


def normal(z: np.ndarray) -> np.ndarray:
    return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


def rise(z: np.ndarray) -> np.ndarray:
    """Slope of the sigmoid."""
    return special.expit(z) * special.expit(-z)


ACTIVATIONS = {
    "erf": Activation(
        special.erf,
        lambda z: 2 / np.sqrt(np.pi) * np.exp(-(z**2)),
        lambda z: -4 / np.sqrt(np.pi) * z * np.exp(-(z**2)),
        4 * np.exp(-0.5) / np.sqrt(2 * np.pi),
    ),
    "tanh": Activation(
        np.tanh,
        lambda z: 1 - np.tanh(z) ** 2,
        lambda z: -2 * np.tanh(z) * (1 - np.tanh(z) ** 2),
        4 / (3 * np.sqrt(3)),
    ),
    "sigmoid": Activation(special.expit, rise, lambda z: -rise(z) * np.tanh(z / 2), 1 / (6 * np.sqrt(3))),
    "softplus": Activation(lambda z: np.logaddexp(0, z), special.expit, rise, 0.25),
    "gelu": Activation(
        lambda z: z * special.ndtr(z),
        lambda z: special.ndtr(z) + z * normal(z),
        lambda z: normal(z) * (2 - z**2),
        np.sqrt(2 / np.pi),
    ),
}


def parts(sizes: dict) -> list[dict]:
    return [{"m": m} for m in sizes["widths"]]


def measure(task: Task, part: dict) -> list[dict]:
    m, s, radii = part["m"], ACTIVATIONS[task.setting], task.sizes["radii"]
    found = {(direction, radius): [] for direction in DIRECTIONS for radius in radii}
    for trial in range(task.sizes["trials"]):
        draw = task.draw("linearisation-smooth", m, trial)
        w = draw.normal(size=(m, task.sizes["dimension"]))  # W0
        outer = draw.choice([-1.0, 1.0], size=m)
        x = draw.normal(size=(task.sizes["points"], w.shape[1]))
        x /= np.linalg.norm(x, axis=1, keepdims=True)  # the statement is tested at x[0]
        z = w @ x[0]  # (m,)
        away = draw.normal(size=w.shape)
        away = away @ x[0] / np.linalg.norm(away)  # (m,) of norm at most 1
        path = descent(w, outer, x, draw.normal(size=len(x)), s, radii, task.sizes["steps"])
        for radius in radii:
            moves = {"random": radius * away, "equal": equal(z, outer, radius, s)}
            moves |= {"descent": path[radius]} if radius in path else {}
            for direction, delta in moves.items():
                found[direction, radius].append(distance(z, delta, outer, s))
            found["adversarial", radius].append(adversarial(z, outer, radius, s))
    rows = []
    for (direction, radius), distances in found.items():
        if distances:  # descent may never get as far as the largest radius
            most = bound(m, radius, s.beta)
            row = {"direction": direction, "radius": radius, "trials": len(distances), "bound": most}
            rows.append(row | {"distance": np.mean(distances), "ratio": max(distances) / most})
    return rows


def bound(m: int, radius: float, beta: float) -> float:
    return beta / (2 * np.sqrt(m)) * radius**2


def remainder(z: np.ndarray, delta: np.ndarray, s: Activation) -> np.ndarray:
    """s(z + delta) - s(z) - s'(z) delta, neuron by neuron."""
    return s.value(z + delta) - s.value(z) - s.slope(z) * delta


def distance(z: np.ndarray, delta: np.ndarray, outer: np.ndarray, s: Activation) -> float:
    """|f - f_lin| at x, for z = W0 x, delta = (W - W0) x and outer weights a, all (m,)."""
    return float(abs(outer @ remainder(z, delta, s)) / np.sqrt(len(z)))


def equal(z: np.ndarray, outer: np.ndarray, radius: float, s: Activation) -> np.ndarray:
    """All neurons move equally far; (m,). The sign of a term is that of its curvature, whichever way a neuron moves."""
    step = radius / np.sqrt(len(z))
    up, down = outer * remainder(z, step, s), outer * remainder(z, -step, s)
    return np.where(up > down, step, -step)


def adversarial(z: np.ndarray, outer: np.ndarray, radius: float, s: Activation) -> float:
    """|f - f_lin| if the k neurons of largest curvature of one sign move along x; the best k of a geometric ladder."""
    m, best = len(z), 0.0
    ladder = np.unique(np.geomspace(1, m, 24).astype(int))
    for sign in (-1, 1):
        order = np.argsort(-sign * outer * s.curvature(z))
        near, a = z[order], sign * outer[order]
        for k in ladder:
            step = radius / np.sqrt(k)
            up, down = remainder(near[:k], step, s), remainder(near[:k], -step, s)
            best = max(best, float(np.maximum(a[:k] * up, a[:k] * down).sum()))
    return best / np.sqrt(m)


def descent(
    w: np.ndarray, outer: np.ndarray, x: np.ndarray, labels: np.ndarray, s: Activation, radii: list, steps: int
) -> dict[float, np.ndarray]:
    """radius -> (W - W0) x[0] where the path of gradient descent on (1/2n) |f - y|^2 first has that norm.

    w (m, d), outer (m,), x (n, d), labels (n,). A path that ends before a radius has no entry for it.
    """
    m, n = len(w), len(x)
    start, gram = w, x @ x.T
    slopes = s.slope(w @ x.T) * outer[:, None]  # (m, n)
    kernel = slopes.T @ slopes / m * gram  # (n, n)
    eigs = np.linalg.eigvalsh(kernel)
    reach = np.sqrt(labels @ np.linalg.pinv(kernel) @ labels)  # |W - W0| of the linear model, fitted
    y = s.value(w @ x.T).T @ outer / np.sqrt(m) + labels * (BEYOND * max(radii) / reach)
    rate, found, todo, old = STEP * n / eigs[-1], {}, sorted(radii), 0.0
    for _ in range(steps):
        z = w @ x.T  # (m, n)
        error = s.value(z).T @ outer / np.sqrt(m) - y  # (n,)
        new = w - rate / n * (outer[:, None] * s.slope(z) * error / np.sqrt(m)) @ x
        norm = np.linalg.norm(new - start)
        while todo and old < todo[0] <= norm:
            radius = todo.pop(0)
            found[radius] = crossing(w - start, new - start, radius) @ x[0]
        w, old = new, norm
        if not todo:
            break
    return found


def crossing(a: np.ndarray, b: np.ndarray, radius: float) -> np.ndarray:
    """The point of norm `radius` between a, of norm below it, and b, of norm not below it."""
    step = b - a
    quadratic, linear, constant = np.sum(step**2), np.sum(a * step), np.sum(a**2) - radius**2
    share = (-linear + np.sqrt(linear**2 - quadratic * constant)) / quadratic
    return a + share * step
