"""The larger the dimension, the closer a two-layer net stays to its linear model: d^(-Omega(alpha)).

Statement: with n and m of order d^(1 + alpha), alpha in (0, 1/4), eta << d, for all t <= T = c d log d / eta at once,
the mean square of f_t - f_t^lin over the training points is at most of order d^(-Omega(alpha)); so it is over new
points, cut off at 1, for the first layer beside sqrt(log T / n).
Where: the early-time slides, main theorems for the first layer, (1) and (2), and for the second; both layers "similar".
Refuted by: a supremum over t <= T, with c = 1, that does not fall with d. Omega(alpha) is read as alpha itself.
"""

import math

import numpy as np

from bench.studies.theory.experiments import _early
from bench.studies.theory.experiments.early_time import compare
from bench.studies.theory.task import Task

SETTINGS = ("first", "second", "both")
COLUMNS = ("d", "n", "m", "steps", "train", "test", "gap", "bound")


def parts(sizes: dict) -> list[dict]:
    return [{"d": d} for d in sizes["dimensions"]]


def measure(task: Task, part: dict) -> list[dict]:
    d, alpha = part["d"], task.sizes["alpha"]
    n = m = _early.grown(d, task.sizes["factor"], alpha)
    x = _early.inputs("gaussian", n + task.sizes["test"], d, task.draw("early-time-dimension", "inputs", d))
    x = _early.tensor(x, task.device)
    y = _early.teacher(x, task.draw("early-time-dimension", "teacher", d))
    net = _early.symmetric(m, d, "erf", task.draw("early-time-dimension", "net", d), task.device)
    psi = _early.features(x, task.setting, _early.constants("erf"))
    eta = _early.rate_of(psi[:n], task.sizes["rate"])
    steps = max(1, math.floor(d * math.log(d) / eta))
    found = compare(net, x, y, psi, n, eta, task.setting, steps)
    most = {split: np.max([row["discrepancy"] for row in rows]) for split, rows in found.items()}
    gap = np.max([row["gap"] for row in found["train"]])
    return [{"n": n, "m": m, "steps": steps} | most | {"gap": gap, "bound": d**-alpha}]
