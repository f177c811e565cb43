"""one-step: MLMOC after one SGD step on the candidate alone (thesis 2.4 "NN 1-step", Kaeding et al. 2016).

To first order a step of size eta on 1/2 |y' - f(x')|^2 changes the outputs at x by eta Theta(x, x') (y' - f_L(x')).
With the pNTK for Theta the sum of the changes over the candidates is, but for eta, which no ranking depends on,

    |y' - f_L(x')| sum_x |K(x, x')|

`step=true` takes the step: on a copy of the network, in float64, batch normalisation in evaluation mode, with one eta
for all, at which no candidate's own residual shrinks by more than a hundredth. It costs a backward pass and a
prediction of all candidates for every candidate, U^2 forward passes: for tests and for hundreds of candidates.
"""

import copy

import numpy as np
import torch
from torch import Tensor, nn

from bench.core.progress import counter
from bench.kernels.empirical import gram
from bench.learn.train import predict
from bench.strategies import Query, top
from bench.strategies._lookahead import BUDGET, one_hot

OPTIONS = {"step": ("linear", "true")}
SHRINK = 0.01  # of a candidate's residual, at most, by a true step


def select(query: Query, size: int, stream: np.random.Generator, step: str) -> np.ndarray:
    net, x = copy.deepcopy(query.net).double(), query.candidates.double()
    f = predict(net, x)  # f_L, (U, O)
    residual = one_hot(f.argmax(1), f.shape[1]) - f  # y' - f_L(x'), (U, O)
    if step == "true":
        return top(_stepped(net, x, f, residual), size, stream)
    k = gram(net, x, output="pseudo", budget=BUDGET, progress=len(x) > 1000)  # (U, U)
    return top(residual.norm(dim=1) * k.abs().sum(0), size, stream)


def _stepped(net: nn.Module, x: Tensor, f: Tensor, residual: Tensor) -> Tensor:
    """sum_x |f_stepped(x) - f_L(x)| for every candidate, (U,)."""
    weights = list(net.parameters())
    start = [weight.detach().clone() for weight in weights]

    def uphill(i: int) -> tuple[Tensor, ...]:
        """Minus the gradient of 1/2 |y' - f(x')|^2."""
        return torch.autograd.grad(net(x[i : i + 1])[0] @ residual[i], weights)

    slopes = torch.stack([sum(part.square().sum() for part in uphill(i)) for i in range(len(x))])  # r' Theta r', (U,)
    moving = slopes > 0
    eta = SHRINK * (residual.square().sum(1)[moving] / slopes[moving]).min() if moving.any() else 0.0
    scores = torch.zeros(len(x), dtype=f.dtype, device=f.device)
    with counter("  steps", len(x), shown=len(x) > 100) as (tick, _):
        for i in range(len(x)):
            change = uphill(i)
            with torch.no_grad():
                for weight, part in zip(weights, change, strict=True):
                    weight.add_(part, alpha=float(eta))
                scores[i] = (predict(net, x) - f).norm(dim=1).sum()
                for weight, value in zip(weights, start, strict=True):
                    weight.copy_(value)
            tick()
    return scores
