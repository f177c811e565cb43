"""How far the first-layer Jacobian moves with the weights: sqrt(n / (m d)) |W - W~|_F, smooth; a cube root, with kinks.

Statement: (6) smooth phi: |J_1(W) - J_1(W~)| <= O(sqrt(n / (m d)) |W - W~|_F) for all W, W~. (7) piece-wise linear phi:
|J_1(W) - J_1(W(0))| <= O(sqrt(n / d) (|W - W(0)|^(1/3) / m^(1/6) + (log n / m)^(1/4))).
Where: the early-time slides, "Jacobian perturbation for the first layer".
Refuted by: a quotient of the two sides that grows with d, for n and m proportional to d^(1 + alpha), whatever the
direction of W - W(0) and its length up to R = sqrt(d log d). Directions: random; one, by which all neurons move along
the top singular vector of X; and the path of gradient descent. In (7) the norm of the slide has no index F: it is the
spectral norm, by the notation of the other slides; quotients with either norm are measured.

The proof of (6) gives its constant, sup|phi''| max_i |x_i| / sqrt d |X| / sqrt n, tested too: |A o B| <= max_i A_ii |B|
for semi-definite A and B, so |dJ|^2 = |(X X^T / d) o (D D^T / m)| <= max_i |x_i|^2 / d |D|_F^2 / m, and |D|_F, of the
change D of phi', is at most sup|phi''| |X (W - W~)^T|_F / sqrt d.
"""

import math

import torch
from torch import Tensor

from bench.studies.theory.experiments import _early
from bench.studies.theory.experiments.early_time_kernel import norm
from bench.studies.theory.task import Task

SETTINGS = ("erf", "tanh", "relu")
COLUMNS = ("d", "n", "m", "direction", "radius", "moved", "quotient", "spectral", "proof")
DIRECTIONS = ("random", "aligned", "path")
STEPS = 10  # of gradient descent; its path is scaled to the radius


def parts(sizes: dict) -> list[dict]:
    return [{"d": d} for d in sizes["dimensions"]]


def measure(task: Task, part: dict) -> list[dict]:
    d = part["d"]
    n = m = _early.grown(d, task.sizes["factor"], task.sizes["alpha"])
    x = _early.tensor(_early.inputs("gaussian", n, d, task.draw("early-time-jacobian", "inputs", d)), task.device)
    net = _early.symmetric(m, d, task.setting, task.draw("early-time-jacobian", "net", d), task.device)
    rows = []
    for direction in DIRECTIONS:
        unit = towards(direction, net, x, task)
        for radius in task.sizes["radii"]:
            length = radius * math.sqrt(d * math.log(d))  # as a fraction of R
            moved = _early.Net(net.w + length * unit, net.v, net.activation)
            row = {"n": n, "m": m, "direction": direction, "radius": radius, "moved": length}
            rows.append(row | quotients(net, moved, x))
    return rows


def towards(direction: str, net: _early.Net, x: Tensor, task: Task) -> Tensor:
    """A direction in the space of W, (m, d), of Frobenius norm 1."""
    if direction == "random":
        draw = task.draw("early-time-jacobian", "direction", x.shape[1])
        way = _early.tensor(draw.normal(size=net.w.shape), x.device)
    elif direction == "aligned":
        top = torch.linalg.eigh(x.T @ x)[1][:, -1]  # (d,)
        way = torch.ones_like(net.v)[:, None] * top
    else:
        y = _early.teacher(x, task.draw("early-time-jacobian", "teacher", x.shape[1]))
        rate = 0.25 / float(torch.linalg.eigvalsh(x.T @ x / len(x) / x.shape[1])[-1])
        *_, (last, _) = _early.descend(net, x, y, rate, "first", STEPS)
        way = last.w - net.w
    return way / way.norm()


def quotients(net: _early.Net, other: _early.Net, x: Tensor) -> dict[str, float]:
    """|J_1(W) - J_1(W~)| over the right side of (6) or (7); for (7) also with the spectral norm."""
    (n, d), m = x.shape, len(net.v)
    change = norm_of_change(net, other, x)
    apart = other.w - net.w
    frobenius, spectral = float(apart.norm()), float(torch.linalg.matrix_norm(apart, 2))
    if math.isfinite(net.activation.bend):
        right = [math.sqrt(n / (m * d)) * length for length in (frobenius, spectral)]
        least = float(x.norm(dim=1).max()) / math.sqrt(d) * float(torch.linalg.matrix_norm(x, 2)) / math.sqrt(n)
        proof = change / (right[0] * least * net.activation.bend) if frobenius else 0.0
    else:
        step = (math.log(n) / m) ** 0.25
        right = [math.sqrt(n / d) * (length ** (1 / 3) / m ** (1 / 6) + step) for length in (frobenius, spectral)]
        proof = None  # the slides do not give it
    over = [change / side if side else 0.0 for side in right]
    return {"quotient": over[0], "spectral": over[1], "proof": proof}


def norm_of_change(net: _early.Net, other: _early.Net, x: Tensor) -> float:
    """|J_1(W) - J_1(W~)|, the root of the norm of its Gram matrix (D D^T / m) o (X X^T / d), (n, n)."""
    change = other.jacobian(x)[0] - net.jacobian(x)[0]  # (n, m)
    return math.sqrt(norm((change @ change.T) * (x @ x.T) / (len(net.v) * x.shape[1])))
