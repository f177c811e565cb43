"""At initialisation the first-layer kernel is that of a linear model, up to n / d^(1 + alpha) in spectral norm.

Statement: |Theta_1(W(0)) - Theta^lin1| <= O(n / d^(1 + alpha)), in two steps: Theta_1(W(0)) is that close to its
expectation Theta_1*, and Theta_1* to Theta^lin1 = (zeta^2 X X^T + nu^2 1 1^T) / d.
Where: the early-time slides, propositions "Distance kernels", "Concentration" and "Approximation".
Refuted by: distances that, divided by n / d, which is the size of Theta^lin1 itself, fall slower than d^(-alpha), for
n and m proportional to d^(1 + alpha), for inputs with entries from N(0, 1) or +-1.

erf, for which E phi'(u) phi'(v) = (4 / pi) / sqrt((1 + 2 q1)(1 + 2 q2) - 4 s^2) (Williams 1997) gives Theta_1*.
Constants are zeta = E phi'(g) and nu = 0.
"""

import math

from torch import Tensor

from bench.kernels.spectrum import largest
from bench.studies.theory.experiments import _early
from bench.studies.theory.task import Task

SETTINGS = ("gaussian", "rademacher")
COLUMNS = ("d", "n", "m", "distance", "concentration", "approximation", "linear", "bound")


def parts(sizes: dict) -> list[dict]:
    return [{"d": d} for d in sizes["dimensions"]]


def measure(task: Task, part: dict) -> list[dict]:
    d, alpha = part["d"], task.sizes["alpha"]
    n = m = _early.grown(d, task.sizes["factor"], alpha)
    x = _early.inputs(task.setting, n, d, task.draw("early-time-kernel", "inputs", d))
    x = _early.tensor(x, task.device)
    net = _early.symmetric(m, d, "erf", task.draw("early-time-kernel", "net", d), task.device)
    linear = _early.constants("erf").zeta ** 2 * (x @ x.T) / d  # (n, n); nu = 0
    here = first_kernel(net, x)
    found = {"linear": norm(linear), "distance": norm(here - linear)}
    mean = expected(x)
    found |= {"concentration": norm(here.sub_(mean)), "approximation": norm(mean.sub_(linear))}  # in place: n is large
    return [{"n": n, "m": m, "bound": d**-alpha} | {name: size * d / n for name, size in found.items()}]


def first_kernel(net: _early.Net, x: Tensor) -> Tensor:
    """Theta_1 = (phi' phi'^T / m) o (X X^T / d), (n, n); |v| = 1."""
    a, _ = net.jacobian(x)
    return (a @ a.T).div_(len(net.v)).mul_(x @ x.T).div_(x.shape[1])


def expected(x: Tensor) -> Tensor:
    """Theta_1*, the mean of Theta_1 over W(0), (n, n), for erf."""
    products = x @ x.T / x.shape[1]
    q = 1 + 2 * products.diagonal()
    inside = (q[:, None] * q[None, :]).addcmul_(products, products, value=-4)
    return products.mul_(4 / math.pi).div_(inside.sqrt_())


def norm(matrix: Tensor) -> float:
    """The largest singular value, by Lanczos."""
    return math.sqrt(largest(lambda v: matrix.T @ (matrix @ v), matrix[0], 1e-8))
