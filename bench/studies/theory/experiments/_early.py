"""Two-layer nets of the early-time slides, the linear models that they follow at first, and gradient descent of both.

    f(x; W, v) = v^T phi(W x / sqrt d) / sqrt m,    L = 1/(2n) sum_i (f(x_i) - y_i)^2,    full-batch gradient descent

Symmetric initialisation, of which the slides keep only the name: m even, half of the rows of W from N(0, I) and half of
v from +-1; the other half copies W and negates v. So f = 0 at first, with the tangent kernel of an ordinary draw.

Letters: n points, d inputs, m neurons, k features of a linear model. Everything in float64.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bench.core.errors import UserError

LAYERS = {"first": (True, False), "second": (False, True), "both": (True, True)}  # which of (W, v) train
ROWS = 512  # points whose neurons are held at once: they stay in cache


class Activation(NamedTuple):
    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    bend: float  # sup |phi''|; infinite for a kink


def _gelu_slope(z: Tensor) -> Tensor:
    return torch.special.ndtr(z) + z * torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)


ACTIVATIONS = {
    "erf": Activation(
        torch.erf, lambda z: 2 / math.sqrt(math.pi) * torch.exp(-z * z), math.sqrt(8 / math.pi) * math.exp(-0.5)
    ),
    "tanh": Activation(torch.tanh, lambda z: 1 - torch.tanh(z) ** 2, 4 / (3 * math.sqrt(3))),
    "softplus": Activation(torch.nn.functional.softplus, torch.sigmoid, 0.25),
    "gelu": Activation(torch.nn.functional.gelu, _gelu_slope, math.sqrt(2 / math.pi)),
    "relu": Activation(torch.relu, lambda z: (z >= 0).to(z), math.inf),  # phi'(0) = 1, the slides' footnote 1
}


class Constants(NamedTuple):
    """Of an activation, with g standard normal (slides, psi_1 and (4))."""

    zeta: float  # E phi'(g)
    theta0: float  # E phi(g)
    theta1: float  # E g phi'(g); nu is this times sqrt(Tr Sigma^2 / d)
    theta2: float  # E (g^3 / 2 - g) phi'(g)


def constants(activation: str) -> Constants:
    """By Gauss-Legendre quadrature on either side of 0, where ReLU has its kink; beyond 12 the normal density is 0."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    g = torch.from_numpy(np.concatenate([6 * nodes - 6, 6 * nodes + 6]))  # (400,) in (-12, 0) and (0, 12)
    mass = torch.from_numpy(np.tile(6 * weights, 2)) * torch.exp(-g * g / 2) / math.sqrt(2 * math.pi)
    phi, slope = ACTIVATIONS[activation].value(g), ACTIVATIONS[activation].slope(g)
    found = (float(mass @ value) for value in (slope, phi, g * slope, (g**3 / 2 - g) * slope))
    return Constants(*(value if abs(value) > 1e-12 else 0.0 for value in found))  # rounding makes no feature


@dataclass(frozen=True)
class Net:
    w: Tensor  # (m, d)
    v: Tensor  # (m,)
    activation: Activation

    def __call__(self, x: Tensor) -> Tensor:
        """(n, d) -> (n,)"""
        m, d = self.w.shape
        phi = self.activation.value
        return torch.cat([phi(part @ self.w.T / math.sqrt(d)) @ self.v for part in x.split(ROWS)]) / math.sqrt(m)

    def gradients(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """f at x (n,), and the gradients of L in W (m, d) and v (m,)."""
        (m, d), n, f = self.w.shape, len(x), torch.empty_like(y)
        in_w, in_v = torch.zeros_like(self.w), torch.zeros_like(self.v)
        for start in range(0, n, ROWS):
            part = slice(start, start + ROWS)
            z = x[part] @ self.w.T / math.sqrt(d)  # (rows, m)
            h = self.activation.value(z)
            f[part] = h @ self.v / math.sqrt(m)
            missed = (f[part] - y[part]) / n  # (rows,)
            in_v += h.T @ missed / math.sqrt(m)
            in_w += (self.activation.slope(z) * missed[:, None]).T @ x[part]
        return f, in_w * self.v[:, None] / math.sqrt(m * d), in_v

    def jacobian(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A and H, both (n, m): df_i/dw_r = A_ir x_i / sqrt(m d), df_i/dv_r = H_ir / sqrt m."""
        z = x @ self.w.T / math.sqrt(x.shape[1])
        return self.v * self.activation.slope(z), self.activation.value(z)


def symmetric(m: int, d: int, activation: str, draw: np.random.Generator, device: torch.device) -> Net:
    if m < 2 or m % 2:
        raise UserError(f"a symmetric initialisation needs an even number of neurons, got {m}")
    w, v = draw.normal(size=(m // 2, d)), draw.choice([-1.0, 1.0], size=m // 2)
    w, v = np.concatenate([w, w]), np.concatenate([v, -v])
    return Net(tensor(w, device), tensor(v, device), ACTIVATIONS[activation])


def tensor(values: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(values).to(device)


def descend(net: Net, x: Tensor, y: Tensor, rate: float, layers: str, steps: int) -> Iterator[tuple[Net, Tensor]]:
    """The net and f(x) at t = 0, ..., steps."""
    first, second = LAYERS[layers]
    for _ in range(steps):
        f, in_w, in_v = net.gradients(x, y)
        yield net, f
        net = Net(net.w - rate * in_w if first else net.w, net.v - rate * in_v if second else net.v, net.activation)
    yield net, net(x)


def features(x: Tensor, layers: str, of: Constants, spread: float = 1.0) -> Tensor:
    """psi, (n, k), of the linear model for that training; spread = sqrt(Tr Sigma^2 / d), 1 for Sigma = I.

    psi_1 = [zeta x; nu] / sqrt d, psi_2 as (3). Both layers: kernels add, so the two stand beside each other.
    """
    n, d = x.shape
    linear, one = of.zeta * x / math.sqrt(d), x.new_ones(n, 1)
    nu, r = of.theta1 * spread, x.norm(dim=1, keepdim=True) / math.sqrt(d)  # r (n, 1)
    psi1 = [linear, one * nu / math.sqrt(d)]
    psi2 = [linear, one * nu / math.sqrt(2 * d), of.theta0 + of.theta1 * (r - 1) + of.theta2 * (r - 1) ** 2]
    return torch.cat({"first": psi1, "second": psi2, "both": psi1 + psi2}[layers], 1)


def descend_linear(psi: Tensor, y: Tensor, rate: float, steps: int) -> Iterator[Tensor]:
    """omega (k,) at t = 0, ..., steps, from 0, for u = psi omega."""
    omega, gram, pull = psi.new_zeros(psi.shape[1]), psi.T @ psi / len(y), psi.T @ y / len(y)
    for _ in range(steps):
        yield omega
        omega = omega - rate * (gram @ omega - pull)
    yield omega


def rate_of(psi: Tensor, fraction: float) -> float:
    """eta with eta |psi psi^T| / n = fraction."""
    top = float(torch.linalg.eigvalsh(psi.T @ psi / len(psi))[-1])
    if not top > 0:
        raise UserError("the linear model has no features: all inputs are 0, so no rate can be set by its kernel")
    return fraction / top


def inputs(kind: str, n: int, d: int, draw: np.random.Generator) -> np.ndarray:
    """Points (n, d) of mean 0 and covariance Sigma, Tr Sigma = d; "correlated": eigenvalues from 1/2 to 3/2, else I."""
    if kind == "rademacher":
        return draw.choice([-1.0, 1.0], size=(n, d))
    return draw.normal(size=(n, d)) * np.sqrt(eigenvalues(kind, d))


def eigenvalues(kind: str, d: int) -> np.ndarray:
    """Of Sigma, (d,)."""
    return np.linspace(0.5, 1.5, d) if kind == "correlated" and d > 1 else np.ones(d)


def teacher(x: Tensor, draw: np.random.Generator, width: int = 5) -> Tensor:
    """The sign, +-1, of a two-layer erf net of width 5 with standard normal weights; (n,)"""
    w, v = tensor(draw.normal(size=(width, x.shape[1])), x.device), tensor(draw.normal(size=width), x.device)
    f = Net(w, v, ACTIVATIONS["erf"])(x)
    return torch.where(f >= 0, 1.0, -1.0).to(x)


def loss(f: Tensor, y: Tensor) -> float:
    return float((f - y).square().mean() / 2)


def grown(d: int, factor: float, alpha: float) -> int:
    """The number of points or neurons, factor d^(1 + alpha), made even."""
    return 2 * math.ceil(factor * d ** (1 + alpha) / 2)
