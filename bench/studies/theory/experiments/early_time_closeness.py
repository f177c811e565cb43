"""Two gradient descents stay close while the kernels do: |u(t) - u_lin(t)| <= O(eta t eps / sqrt n).

Statement: Claim C.1: u_lin(t) - y = (I - eta K / n)^t (u_lin(0) - y), which does not grow for eta <= 2 n / |K|. General
theorem: if u(0) = u_lin(0) = 0, |y| <= sqrt n, eta <= n / |K|, and |J(theta) J(theta')^T - K| <= eps within R of
theta(0), R^2 eps < n, then for t <= c R^2 / eta |u(t) - u_lin(t)| <= O(eta t eps / sqrt n), and neither model's
parameters move by more than R. For the first layer R = sqrt(d log d).
Where: the early-time slides, "General result", Claim C.1, the theorem and its proof; lemma to prove Assumption 1.
Refuted by: a distance above eta t eps / sqrt n, with eps the largest norm so far of the proof's
E(t) = J(theta(t) -> theta(t + 1)) J(theta(t))^T - K; the proof gives the constant 1 while |u - y| <= sqrt n. Or a
movement beyond R, with c = 1.

J(theta -> theta') is the mean of J along the segment, by Gauss-Legendre quadrature; E(t) is all of eps that the proof
uses. `condition` is R^2 eps / n, which the theorem wants below 1.
"""

import math

import numpy as np
import torch
from torch import Tensor

from bench.studies.theory.experiments import _early
from bench.studies.theory.experiments.early_time_kernel import norm
from bench.studies.theory.task import Task

SETTINGS = ("first", "second", "both")
COLUMNS = (
    "d",
    "rate",
    "n",
    "m",
    "step",
    "time",
    "eps",
    "distance",
    "bound",
    "ratio",
    "moved",
    "condition",
    "error",
    "growth",
)


def parts(sizes: dict) -> list[dict]:
    return [{"d": d, "rate": rate} for d in sizes["dimensions"] for rate in sizes["rates"]]


def measure(task: Task, part: dict) -> list[dict]:
    d, name = part["d"], ("early-time-closeness", part["d"])
    n = m = _early.grown(d, task.sizes["factor"], task.sizes["alpha"])
    x = _early.tensor(_early.inputs("gaussian", n, d, task.draw(*name, "inputs")), task.device)
    y = _early.teacher(x, task.draw(*name, "teacher"))  # |y| = sqrt n
    net = _early.symmetric(m, d, "erf", task.draw(*name, "net"), task.device)
    psi = _early.features(x, task.setting, _early.constants("erf"))
    eta = _early.rate_of(psi, part["rate"])
    steps = max(1, math.floor(d * math.log(d) / eta))  # R^2 / eta
    return [{"n": n, "m": m} | row for row in follow(net, x, y, psi, eta, task.setting, steps)]


def follow(net: _early.Net, x: Tensor, y: Tensor, psi: Tensor, eta: float, layers: str, steps: int) -> list[dict]:
    """What the claim and the theorem say of every step."""
    (n, d), kernel = x.shape, psi @ psi.T  # (n, n)
    radius, root = math.sqrt(d * math.log(d)), math.sqrt(n)
    eigs, vectors = torch.linalg.eigh(kernel)
    coefficients = vectors.T @ y  # (n,), of y - u_lin(0)
    path, eps, rows, start, before = _early.descend(net, x, y, eta, layers, steps), 0.0, [], net, None
    for step, ((now, u), omega) in enumerate(zip(path, _early.descend_linear(psi, y, eta, steps), strict=True)):
        if before is not None:
            eps = max(eps, norm(change(before, now, x, layers) - kernel))
        linear = psi @ omega
        closed = y - vectors @ ((1 - eta * eigs / n) ** step * coefficients)  # Claim C.1
        distance, bound = float((u - linear).norm()), eta * step * eps / root
        moved = max(float(torch.cat([(now.w - start.w).ravel(), now.v - start.v]).norm()), float(omega.norm()))
        row = {"step": step, "time": eta * step / d, "distance": distance, "eps": eps * d / n, "bound": bound}
        row |= {"ratio": distance / bound if step else 0.0, "moved": moved / radius, "condition": radius**2 * eps / n}
        row |= {"error": float((linear - closed).abs().max()), "growth": float((linear - y).norm() / y.norm())}
        rows.append(row)
        before = now
    return rows


def change(now: _early.Net, then: _early.Net, x: Tensor, layers: str, nodes: int = 4) -> Tensor:
    """J(now -> then) J(now)^T, (n, n), of the layers that train."""
    first, second = _early.LAYERS[layers]
    a, h = now.jacobian(x)
    mean_a, mean_h = torch.zeros_like(a), torch.zeros_like(h)
    for place, weight in zip(*np.polynomial.legendre.leggauss(nodes), strict=True):
        share = (place + 1) / 2
        between = _early.Net(torch.lerp(now.w, then.w, share), torch.lerp(now.v, then.v, share), now.activation)
        for mean, part in zip((mean_a, mean_h), between.jacobian(x), strict=True):
            mean += part * (weight / 2)
    of_w = (mean_a @ a.T) * (x @ x.T) / x.shape[1] if first else 0
    return (of_w + (mean_h @ h.T if second else 0)) / len(now.v)
