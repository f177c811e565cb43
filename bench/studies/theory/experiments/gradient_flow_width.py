"""A wide net stays near its linearisation for all time, and its tangent kernel near the first: within O(width^(-1/2)).

Statement: sup_t |f_t(x) - f_t^lin(x)| and sup_t |Theta_t - Theta_0|_F are O(width^(-1/2)) under gradient descent at a
small step, both nets from the same weights. So the trained net is near ridgeless regression with Theta_0, and
near that with the infinite kernel, in which Theta_0 is replaced by its expectation.
Where: thesis (2.9), (2.10), after Lee et al. 2019; the lecture, Theorem 3.2 of Arora et al. 2019.
Refuted by: a supremum that falls more slowly. (2.9) also prints an equality sign between the two suprema: `unequal`,
the difference as a share of the larger, would be 0.

Two-layer nets, step n / lambda_max(Theta_0), half the largest stable one; f^lin takes the same steps, so that width
alone is between them. A setting names the activation and what is trained: both layers, or the `first` alone, as in the
lecture, where outer weights are fixed.
"""

import numpy as np
import torch
from torch import Tensor

from bench.core.errors import UserError
from bench.kernels import infinite
from bench.studies.theory.experiments import _two_layers
from bench.studies.theory.experiments._two_layers import Net
from bench.studies.theory.task import Task

SETTINGS = ("erf", "relu", "erf-first", "relu-first")
COLUMNS = ("m", "trial", "distance", "movement", "unequal", "final", "infinite", "residual")
TINY = 1e-300  # two suprema of 0 are equal


def parts(sizes: dict) -> list[dict]:
    return [{"m": m, "trial": trial} for m in sizes["widths"] for trial in range(sizes["trials"])]


def measure(task: Task, part: dict) -> list[dict]:
    sizes, (activation, _, layers) = task.sizes, task.setting.partition("-")
    draw = task.draw("gradient-flow-width", "data", part["trial"])  # the same points for all widths
    x = torch.from_numpy(draw.normal(size=(sizes["points"] + sizes["test"], sizes["dimension"]))).to(task.device)
    y = torch.from_numpy(draw.normal(size=sizes["points"])).to(task.device)
    generator = task.torch_draw("gradient-flow-width", "net", part["m"], part["trial"])
    net = _two_layers.draw(part["m"], sizes["dimension"], activation, generator, task.device)
    found = train(net, x, y, layers == "first", sizes["steps"])
    k = infinite.fcn(x, depth=1, activation=activation, weight_variance=1.0)
    expected = k.ntk - k.nngp if layers == "first" else k.ntk  # the outer weights' own part is the NNGP kernel
    limit = regression(expected, net(x), y)
    rms = lambda difference: float(difference[len(y) :].square().mean().sqrt())  # noqa: E731
    ended = {"final": rms(found["f"] - found["limit"]), "infinite": rms(found["f"] - limit)}  # at the test points
    return [{key: found[key] for key in ("distance", "movement", "unequal", "residual")} | ended]


def train(net: Net, x: Tensor, y: Tensor, first: bool, steps: int) -> dict:
    """Gradient descent of the net and of its linearisation on the first len(y) of the points x (N, d); suprema in time.

    `distance`: of outputs at all points, Euclidean over points as in (2.9); `movement` of the kernel, Frobenius.
    """
    n = len(y)
    theta = kernel(net, x, x, first)  # (N, N)
    eigs = torch.linalg.eigvalsh(theta[:n, :n])
    if eigs[0] <= n * torch.finfo(eigs.dtype).eps * eigs[-1]:
        raise UserError(f"the kernel of a net of width {len(net.a)} is singular on {n} points: choose larger widths")
    eta = n / float(eigs[-1])
    f = linear = net(x)
    limit, looks = regression(theta, f, y), set(np.unique(np.geomspace(1, steps, 40).astype(int)))
    distance = movement = 0.0
    for step in range(1, steps + 1):
        gradient = net.gradient(x[:n], f[:n] - y)
        if first:
            gradient = gradient[0], torch.zeros_like(gradient[1])
        net, f = (new := net.step(gradient, eta / n)), new(x)
        linear = linear - eta / n * theta[:, :n] @ (linear[:n] - y)
        distance = max(distance, float((f - linear).norm()))
        if step in looks:
            movement = max(movement, float((kernel(net, x, x, first) - theta).norm()))
    residual = float((f[:n] - y).norm() / y.norm())
    found = {
        "distance": distance,
        "movement": movement,
        "unequal": abs(distance - movement) / max(distance, movement, TINY),
    }
    return found | {"residual": residual, "f": f, "limit": limit}


def kernel(net: Net, x1: Tensor, x2: Tensor, first: bool) -> Tensor:
    """The tangent kernel of both layers, or of the inner weights alone; (n1, n2)."""
    if not first:
        return net.kernel(x1, x2)
    outer = Net(net.w, torch.zeros_like(net.a), net.activation)  # inner weights have no gradient where outer ones are 0
    return net.kernel(x1, x2) - outer.kernel(x1, x2)


def regression(theta: Tensor, f0: Tensor, y: Tensor) -> Tensor:
    """f_0 + Theta(x, S) Theta(S, S)^-1 (y - f_0(S)) at all points (2.10), theta (N, N); (N,)."""
    n = len(y)
    return f0 + theta[:, :n] @ torch.linalg.solve(theta[:n, :n], y - f0[:n])
