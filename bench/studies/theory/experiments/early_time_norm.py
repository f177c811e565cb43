"""The linear model of the second layer needs its third coordinate, which depends on |x|.

Statement: beside x and a constant psi_2 has the coordinate theta_0 + theta_1 (r - 1) + theta_2 (r - 1)^2, with
r = |x| / sqrt d; strictly, then, the model is not linear in x.
Where: the early-time slides, (3), (4) and the note after them. They do not say whether the coordinate is needed; the
test is ours: ReLU, y = |x| / sqrt d, x from N(0, I).
Refuted by: a model without the third coordinate that stays as close to the net as psi_2 does. Two such: `without` it,
and `constant`, with theta_0 in its place, so that the model has a bias of the right size and lacks the norm alone.

E phi(g) is not 0, so m is of order d^(2 + alpha) and eta << 1, by the theorem for the second layer.
"""

import math

import torch
from torch import Tensor

from bench.studies.theory.experiments import _early
from bench.studies.theory.task import Task

SETTINGS = ("second", "both")
COLUMNS = ("d", "n", "m", "step", "time", "model", "net", "linear", "discrepancy", "last", "times")
MODELS = ("full", "constant", "without")


def parts(sizes: dict) -> list[dict]:
    return [{"d": d} for d in sizes["dimensions"]]


def measure(task: Task, part: dict) -> list[dict]:
    d, name = part["d"], ("early-time-norm", part["d"])
    n, m = task.sizes["points"], _early.grown(d, 1.0, 1 + task.sizes["alpha"])
    x = _early.tensor(_early.inputs("gaussian", n, d, task.draw(*name, "inputs")), task.device)
    y = x.norm(dim=1) / math.sqrt(d)
    net = _early.symmetric(m, d, "relu", task.draw(*name, "net"), task.device)
    models = {model: features(x, task.setting, model) for model in MODELS}
    eta = _early.rate_of(models["full"], task.sizes["rate"])
    steps = max(1, math.floor(d * math.log(d) / eta))
    linear = [_early.descend_linear(psi, y, eta, steps) for psi in models.values()]
    kept = {round(steps ** (i / task.sizes["rows"])) for i in range(task.sizes["rows"] + 1)}
    rows, worst = [], dict.fromkeys(MODELS, 0.0)
    for step, ((_, f), *omegas) in enumerate(
        zip(_early.descend(net, x, y, eta, task.setting, steps), *linear, strict=True)
    ):
        about = {"n": n, "m": m, "step": step, "time": eta * step / d, "last": int(step == steps)}
        for (model, psi), omega in zip(models.items(), omegas, strict=True):
            u = psi @ omega
            apart = float((f - u).square().mean())
            worst[model] = max(worst[model], apart)
            if step in kept:
                losses = {"net": _early.loss(f, y), "linear": _early.loss(u, y)}
                rows.append(about | {"model": model, "discrepancy": apart} | losses)
    # how many times as far from the net as the full model, each at its worst
    return [row | {"times": worst[row["model"]] / worst["full"]} for row in rows]


def features(x: Tensor, layers: str, model: str) -> Tensor:
    """psi with the third coordinate of psi_2, its last, as it is, as theta_0 alone, or left out; (n, k)."""
    of = _early.constants("relu")
    psi = _early.features(x, layers, of)
    if model == "full":
        return psi
    rest = [torch.full_like(psi[:, -1:], of.theta0)] if model == "constant" else []
    return torch.cat([psi[:, :-1], *rest], 1)
