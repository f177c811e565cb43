"""In early training a two-layer net does what a linear model of its inputs does; later it goes its own way.

Statement: for t up to T = c d log d / eta the net and the linear model, trained alike, have nearly equal outputs on the
training points, and on new ones; for well-conditioned data the linear model is near its optimum by then.
Where: the early-time slides, contributions, the two main theorems and the remarks; the run that they name (erf, width
256, synthetic data) with data of our choice: x from N(0, I), y the sign of an erf net of width 5.
Refuted by: losses that differ by more than a tenth before T, read with c = 1, or before the linear model has learnt
99% of what it can. The constant c is not given; the time of parting measures it. Time is eta t / d, so T is log d.

The rate is a fraction of n / lambda_max of the linear model's kernel; the theorems ask for eta << d.
"""

import math

import numpy as np
import torch

from bench.studies.theory.experiments import _early
from bench.studies.theory.task import Task

SETTINGS = ("first", "second", "both")
COLUMNS = (
    "d",
    "split",
    "step",
    "time",
    "horizon",
    "net",
    "linear",
    "gap",
    "discrepancy",
    "left",
    "ahead",
    "last",
    "parted",
)
APART = 0.1  # relative difference of losses that counts as parting


def parts(sizes: dict) -> list[dict]:
    return [{"d": sizes["d"]}]


def measure(task: Task, part: dict) -> list[dict]:
    d, n = part["d"], task.sizes["train"]
    x = _early.inputs("gaussian", n + task.sizes["test"], d, task.draw("early-time", "inputs", d))
    x = _early.tensor(x, task.device)
    y = _early.teacher(x, task.draw("early-time", "teacher", d))
    net = _early.symmetric(task.sizes["width"], d, "erf", task.draw("early-time", "net", d), task.device)
    psi = _early.features(x, task.setting, _early.constants("erf"))  # (n + test, k)
    eta = _early.rate_of(psi[:n], task.sizes["rate"])
    steps = math.ceil(task.sizes["time"] * d / eta)
    found = compare(net, x, y, psi, n, eta, task.setting, steps)
    kept = np.unique([0, *np.geomspace(1, steps, task.sizes["points"]).round().astype(int)])
    return [
        row | {"parted": parting(found[split]), "horizon": math.log(d), "last": int(step == steps)}
        for split in found
        for step, row in enumerate(found[split])
        if step in kept
    ]


def compare(
    net: _early.Net, x: torch.Tensor, y: torch.Tensor, psi: torch.Tensor, n: int, eta: float, layers: str, steps: int
) -> dict[str, list[dict]]:
    """Losses of net and linear model at every step, on the first n points, which train, and on the others."""
    best = psi[:n] @ torch.linalg.lstsq(psi[:n], y[:n, None], driver="gelsd").solution[:, 0]
    least, most = _early.loss(best, y[:n]), _early.loss(torch.zeros_like(best), y[:n])
    rows: dict[str, list[dict]] = {"train": [], "test": []}
    nets = _early.descend(net, x[:n], y[:n], eta, layers, steps)
    for step, ((now, f), omega) in enumerate(zip(nets, _early.descend_linear(psi[:n], y[:n], eta, steps), strict=True)):
        u, outputs = psi @ omega, torch.cat([f, now(x[n:])])  # (n + test,)
        left = (_early.loss(u[:n], y[:n]) - least) / (most - least) if most > least else 0.0
        for split, part in (("train", slice(0, n)), ("test", slice(n, None))):
            ours, linear = _early.loss(outputs[part], y[part]), _early.loss(u[part], y[part])
            squares = (outputs[part] - u[part]).square()
            squares = squares.clamp(max=1) if split == "test" else squares  # (1), and (2) with its min{., 1}
            row = {"split": split, "step": step, "time": eta * step / x.shape[1], "net": ours, "linear": linear}
            row |= {"gap": abs(ours - linear) / linear, "ahead": 1 - ours / linear, "left": left}
            rows[split].append(row | {"discrepancy": float(squares.mean())})
    return rows


def parting(rows: list[dict]) -> float | None:
    """The first time at which the losses differ by a tenth; None if they never do."""
    return next((row["time"] for row in rows if row["gap"] > APART), None)
