"""A two-layer net in the NTK parameterisation, one output: f(x) = a . phi(W x / sqrt d) / sqrt m, all weights N(0, 1).

Squared loss 1/2 |f(X) - y|^2, its gradient and the tangent kernel are written out: thousands of small steps are cheap.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.core.errors import UserError

# phi and its derivative; that of ReLU at 0 is 0, as in PyTorch
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "relu": (torch.relu, lambda z: (z > 0).to(z)),
    "erf": (torch.erf, lambda z: 2 / math.sqrt(math.pi) * torch.exp(-(z**2))),
}


@dataclass(frozen=True)
class Net:
    w: Tensor  # (m, d)
    a: Tensor  # (m,)
    activation: str

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs at x (n, d); (n,)."""
        return ACTIVATIONS[self.activation][0](self._hidden(x)) @ self.a / math.sqrt(len(self.a))

    def gradient(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """J^T r for r (n,), of W (m, d) and of a (m,); with r = f - y that of the loss."""
        phi, slope = ACTIVATIONS[self.activation]
        z, root = self._hidden(x), math.sqrt(len(self.a))
        back = residual[:, None] * slope(z) * self.a  # (n, m)
        return back.mT @ x / (root * math.sqrt(x.shape[1])), phi(z).mT @ residual / root

    def step(self, gradient: tuple[Tensor, Tensor], eta: float) -> "Net":
        return Net(self.w - eta * gradient[0], self.a - eta * gradient[1], self.activation)

    def kernel(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Theta = J(x1) J(x2)^T, (n1, n2)."""
        phi, slope = ACTIVATIONS[self.activation]
        z1, z2, (m, d) = self._hidden(x1), self._hidden(x2), self.w.shape
        return (phi(z1) @ phi(z2).mT + (slope(z1) * self.a**2) @ slope(z2).mT * (x1 @ x2.mT) / d) / m

    def _hidden(self, x: Tensor) -> Tensor:
        return x @ self.w.mT / math.sqrt(x.shape[1])  # (n, m)


def draw(m: int, d: int, activation: str, generator: torch.Generator, device: torch.device) -> Net:
    if m < 1 or d < 1:
        raise UserError(f"a net of width {m} on {d} features does not exist: both must be at least 1")
    w, a = (torch.randn(shape, generator=generator, dtype=torch.float64).to(device) for shape in ((m, d), (m,)))
    return Net(w, a, activation)


def train(net: Net, x: Tensor, y: Tensor, eta: float, tolerance: float, most: int) -> tuple[Net, int, float]:
    """Gradient descent until |f - y| <= tolerance |y|, at most `most` steps; the net, the steps and |f - y| / |y|."""
    goal = tolerance * y.norm()
    for steps in range(most + 1):
        residual = net(x) - y
        if residual.norm() <= goal or steps == most:
            break
        net = net.step(net.gradient(x, residual), eta)
    return net, steps, float(residual.norm() / y.norm())
