"""The two remainders of a gradient step are O(eta^2), as NPC's Lemma 3 says, though its proof gives O(eta) for one.

Statement: L_{t+1} <= (1 - eta lambda_min) L_t + xi + eps (Lemma 1), both remainders at most O(eta^2) L_t (Lemma 3);
eps = 1/2 |f_{t+1} - f_t|^2 and xi is the integral over g in [0, eta] of grad L . (grad L - grad L(theta - g grad L)).
Where: NPC appendix, Lemma 1 (7), Lemma 3 and its proof, (12), (13).
Refuted by: L_{t+1} above the right side; an exponent of eps or xi in eta below 2.

Weak points of the proof. It bounds the integrand of xi by (a' g + c'') L_t; the integral, a' eta^2 / 2 + c'' eta, is of
order eta, since c'' > 0 if alpha > 0. That is evaluated, with beta = lambda_max, M = 2 lambda_max, mu = 2 lambda_min
and a small alpha; `alpha` is the least that (9) needs on the step. And it writes h'(0) = -e Tr(K), e = y - f, for the
derivative of the outputs along the step, which is K e.

L_{t+1} = L_t - eta |grad L|^2 + xi exactly, by the definition of xi: `identity` is the error of that. So eps, which has
a factor 1/2 in Lemma 1 and none in (13), is not needed at all.
"""

import math

import numpy as np
import torch

from bench.studies.theory.experiments import _two_layers
from bench.studies.theory.task import Task

SETTINGS = ("relu", "erf")
COLUMNS = (
    "m",
    "trial",
    "eta",
    "eps",
    "xi",
    "xi_bound",
    "alpha",
    "lemma",
    "identity",
    "derivative_error",
    "trace_error",
)
ALPHA = 0.01  # in units of sqrt(lambda_max)
PANELS, NODES = 16, 8  # of the quadrature: Gauss-Legendre on equal panels


def parts(sizes: dict) -> list[dict]:
    return [{"m": m} for m in sizes["widths"]]


def measure(task: Task, part: dict) -> list[dict]:
    m, n, d, rows = part["m"], task.sizes["points"], task.sizes["d"], []
    for trial in range(task.sizes["trials"]):
        draw = task.draw("npc-lemmas", m, trial)
        x = torch.from_numpy(draw.normal(size=(n, d))).to(task.device)
        y = torch.from_numpy(draw.normal(size=n)).to(task.device)
        net = _two_layers.draw(m, d, task.setting, task.torch_draw("npc-lemmas", m, trial), task.device)
        rows += [{"trial": trial, "eta": float(eta)} | remainders(net, x, y, eta) for eta in task.sizes["etas"]]
    return rows


def remainders(net: _two_layers.Net, x: torch.Tensor, y: torch.Tensor, relative: float) -> dict:
    """What a step of eta = relative / lambda_max leaves, in units of the loss 1/2 |f - y|^2."""
    f = net(x)
    loss = float((f - y).square().sum() / 2)
    gradient, kernel = net.gradient(x, f - y), net.kernel(x, x)
    eigs = torch.linalg.eigvalsh(kernel)
    least, most = float(eigs[0]), float(eigs[-1])
    eta, square = relative / most, float(sum(part.square().sum() for part in gradient))

    def along(g: float) -> float:
        """grad L . grad L(theta - g grad L)."""
        moved = net.step(gradient, g)
        there = moved.gradient(x, moved(x) - y)
        return float(sum((a * b).sum() for a, b in zip(gradient, there, strict=True)))

    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    edges = np.linspace(0, eta, PANELS + 1)
    g = ((edges[1:] + edges[:-1])[:, None] + np.diff(edges)[:, None] * nodes) / 2  # (panels, nodes)
    integrand = square - np.vectorize(along)(g)
    xi = float((integrand @ weights * np.diff(edges) / 2).sum())
    after = net.step(gradient, eta)
    moved = after(x) - f
    eps, following = float(moved.square().sum() / 2), float((after(x) - y).square().sum() / 2)
    needed = (following - loss + eta * square - most * eta**2 * square) / (
        math.sqrt(loss * square) * eta
    )  # alpha in (9)
    e, slope = y - f, derivative(net, x, gradient)
    found = {"eps": eps / loss, "xi": xi / loss, "xi_bound": proof(eta, least, most, ALPHA * math.sqrt(most))}
    found |= {"alpha": max(0.0, needed), "lemma": following / ((1 - eta * least) * loss + xi + eps)}
    found["identity"] = abs(following - (loss - eta * square + xi)) / loss
    found["derivative_error"] = float((slope - kernel @ e).norm() / slope.norm())
    found["trace_error"] = float((slope + e * kernel.trace()).norm() / slope.norm())
    return found


def derivative(net: _two_layers.Net, x: torch.Tensor, gradient: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """h'(0) of h(g) = f(theta - g grad L), by automatic differentiation; (n,)."""
    outputs = lambda w, a: _two_layers.Net(w, a, net.activation)(x)  # noqa: E731
    return torch.func.jvp(outputs, (net.w, net.a), tuple(-part for part in gradient))[1]


def proof(eta: float, least: float, most: float, alpha: float) -> float:
    """a' eta^2 / 2 + c'' eta, the proof's bound on xi / L_t before its last sign of equality."""
    beta, big, mu = most, 2 * most, 2 * least
    b = (alpha * math.sqrt(big) - mu) / (2 * beta)
    c1 = 1 + math.sqrt(beta) * (abs(b) + math.sqrt(abs(1 / beta - b**2)))  # c'
    a1, c2 = alpha * math.sqrt(big * beta) + 2 * beta * big, alpha * math.sqrt(big) * c1  # a', c''
    return a1 * eta**2 / 2 + c2 * eta
