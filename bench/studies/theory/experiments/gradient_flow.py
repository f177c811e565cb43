"""Gradient flow with a constant kernel has a closed form and tends to ridgeless regression; steps up to 2n/lambda hold.

Statement: for L = (1/n) sum_i 1/2 (f(x_i) - y_i)^2 and a kernel K that stays, df_S/dt = -(1/n) K (f_S - y), so
f_t(x) = f_0(x) + k(x, S) K^-1 (I - exp(-t K / n)) (y - f_0(S)), at t = infinity kernel regression of the residuals with
prior mean f_0. Gradient descent has (I - eta K / n)^t instead of the exponential, stable for eta < 2 n / lambda_max.
Where: the lecture, training dynamics and "Showing the NTK correspondence"; thesis (2.5), (2.6), (2.10).
Refuted by: a distance beyond rounding, or beyond the tolerance of the integrator, at any time.

The lecture derives the flow of the mean loss, with 1/n, and then prints exp(-t K), as (2.5) does; that is the flow of
the sum, whose time runs n times faster. Checks, errors relative to the largest |y - f_0| of a training point:
    mean      the closed form with exp(-t K / n) against integration of the flow of the mean loss
    printed   exp(-t K) against the same
    sum       exp(-t K) against integration of the flow of the sum
    limit     t = infinity against a direct solution of K w = y - f_0(S)
    descent   (I - eta K / n)^t against gradient descent on the weights of a linear model
    step      the largest stable step, by bisection, against 2 n / lambda_max: relative
"""

from collections.abc import Callable

import numpy as np
import torch
from scipy.integrate import solve_ivp

from bench.kernels import infinite
from bench.kernels.regression import gradient_flow
from bench.studies.theory.experiments import _arccos, _two_layers
from bench.studies.theory.task import Task

SETTINGS = ("wishart", "arccos", "infinite", "empirical")
COLUMNS = ("n", "trial", "check", "error", "condition")
TIMES = (0.1, 1.0, 10.0, 100.0)  # in units of n / lambda_max
DIMENSION, WIDTH = 10, 256  # of the points; of the net whose kernel is `empirical`


def parts(sizes: dict) -> list[dict]:
    return [{"n": n, "trial": trial} for n in sizes["points"] for trial in range(sizes["trials"])]


def measure(task: Task, part: dict) -> list[dict]:
    n = part["n"]
    draw = task.draw("gradient-flow", n, part["trial"])
    kernel = KERNELS[task.setting](draw, n + task.sizes["test"])  # of training and test points together
    eigs = np.linalg.eigvalsh(kernel[:n, :n])
    y, f0 = draw.normal(size=n), draw.normal(size=len(kernel))
    unit = n / eigs[-1]
    times = [unit * time for time in TIMES]
    scale = np.abs(y - f0[:n]).max()
    found = {
        "mean": closed(kernel, f0, y, times) - integrated(kernel, f0, y, times, 1 / n),
        "printed": closed(kernel, f0, y, [time * n for time in times]) - integrated(kernel, f0, y, times, 1 / n),
        "sum": closed(kernel, f0, y, times) - integrated(kernel, f0, y, [time / n for time in times], 1.0),
        "limit": closed(kernel, f0, y, [np.inf]) - solved(kernel, f0, y),
        "descent": powers(kernel, f0, y, unit, task.sizes["steps"]) - descent(kernel, f0, y, unit, task.sizes["steps"]),
    }
    errors = {check: np.abs(difference).max() / scale for check, difference in found.items()}
    largest = stable(lambda eta: grows(kernel[:n, :n], y - f0[:n], eta, task.sizes["steps"]), 8 * unit)
    errors["step"] = abs(largest / (2 * unit) - 1)
    return [{"check": check, "error": error, "condition": eigs[-1] / eigs[0]} for check, error in errors.items()]


def wishart(draw: np.random.Generator, points: int) -> np.ndarray:
    features = draw.normal(size=(points, 2 * points))
    return features @ features.T / features.shape[1]


def arccos(draw: np.random.Generator, points: int) -> np.ndarray:
    x = _arccos.sphere(draw, points, DIMENSION)
    return _arccos.kernel(x, x)


def infinite_ntk(draw: np.random.Generator, points: int) -> np.ndarray:
    return infinite.fcn(torch.from_numpy(draw.normal(size=(points, DIMENSION)))).ntk.numpy()


def empirical(draw: np.random.Generator, points: int) -> np.ndarray:
    x, w, a = (draw.normal(size=shape) for shape in ((points, DIMENSION), (WIDTH, DIMENSION), WIDTH))
    x, w, a = map(torch.from_numpy, (x, w, a))
    return _two_layers.Net(w, a, "relu").kernel(x, x).numpy()


KERNELS = {"wishart": wishart, "arccos": arccos, "infinite": infinite_ntk, "empirical": empirical}


def closed(kernel: np.ndarray, f0: np.ndarray, y: np.ndarray, times: list[float]) -> np.ndarray:
    """The closed form at all points, kernel (N, N), of which the first n = len(y) have labels; (times, N)."""
    n = len(y)
    k, start, labels = torch.from_numpy(kernel), torch.from_numpy(f0)[:, None], torch.from_numpy(y)[:, None]
    return gradient_flow(k[:n, :n], k[:, :n], labels, times, (start[:n], start))[..., 0].numpy()


def integrated(kernel: np.ndarray, f0: np.ndarray, y: np.ndarray, times: list[float], weight: float) -> np.ndarray:
    """df/dt = -weight K(., S) (f_S - y) by a Runge-Kutta method of order 8; (times, N)."""
    n = len(y)
    flow = lambda _, f: -weight * kernel[:, :n] @ (f[:n] - y)  # noqa: E731
    return solve_ivp(flow, (0, times[-1]), f0, method="DOP853", t_eval=times, rtol=1e-13, atol=1e-13).y.T


def solved(kernel: np.ndarray, f0: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Ridgeless regression of y - f_0(S), with prior mean f_0; (N,)."""
    n = len(y)
    return f0 + kernel[:, :n] @ np.linalg.solve(kernel[:n, :n], y - f0[:n])


def powers(kernel: np.ndarray, f0: np.ndarray, y: np.ndarray, eta: float, steps: int) -> np.ndarray:
    """f_0 + k K^-1 (I - (I - eta K / n)^steps) (y - f_0(S)); (N,)."""
    n = len(y)
    eigs, vectors = np.linalg.eigh(kernel[:n, :n])
    gain = (1 - (1 - eta * eigs / n) ** steps) / eigs
    return f0 + kernel[:, :n] @ (vectors * gain) @ vectors.T @ (y - f0[:n])


def descent(kernel: np.ndarray, f0: np.ndarray, y: np.ndarray, eta: float, steps: int) -> np.ndarray:
    """Gradient descent on the weights v of f = f_0 + Phi v, where Phi Phi^T = K; (N,)."""
    n = len(y)
    eigs, vectors = np.linalg.eigh(kernel)
    phi = vectors * np.sqrt(np.maximum(eigs, 0))  # (N, N)
    v = np.zeros(len(phi))
    for _ in range(steps):
        v -= eta / n * phi[:n].T @ (f0[:n] + phi[:n] @ v - y)
    return f0 + phi @ v


def grows(kernel: np.ndarray, residual: np.ndarray, eta: float, steps: int) -> bool:
    """Whether gradient descent at this step makes the residual larger in the second half of its steps."""
    halfway = np.inf
    for step in range(steps):
        if step == steps // 2:
            halfway = np.linalg.norm(residual)
        residual = residual - eta / len(residual) * kernel @ residual
        if not np.abs(residual).max() < 1e150:
            return True
    return bool(np.linalg.norm(residual) > halfway)


def stable(unstable: Callable[[float], bool], high: float, rounds: int = 40) -> float:
    """The largest step that is not unstable, between 0 and `high`."""
    low = 0.0
    for _ in range(rounds):
        middle = (low + high) / 2
        low, high = (low, middle) if unstable(middle) else (middle, high)
    return low
