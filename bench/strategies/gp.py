"""gp: a Gaussian process with the infinite-width NTK as model, MLMOC of it as acquisition (thesis 2.4 "GP").

Kaeding et al. 2018 look ahead exactly, since a Gaussian process is retrained exactly; the thesis puts one-hot targets
and an infinite NTK in it, of a network it does not name. Here it is that of the fully-connected ReLU network with three
hidden layers, as in `infinite`, with zero mean and no noise but the jitter. The model takes the network's place: recipe
and warm start have no meaning for it. Its mean is f_L and f_lin at once, so (2.13) has one reading.
"""

import numpy as np
import torch
from torch import Tensor, nn

from bench.kernels.infinite import fcn
from bench.kernels.regression import regress
from bench.learn.train import Recipe
from bench.strategies import Query, top
from bench.strategies._lookahead import OBJECTIVES, images, known, one_hot


class KernelRegression(nn.Module):
    """x -> K(x, X) w. Nothing of it is saved: it is solved for anew in every cycle."""

    def __init__(self, outputs: int):
        super().__init__()
        self.outputs = outputs
        self.register_buffer("points", None, persistent=False)  # X, (N, C, H, W)
        self.register_buffer("weights", None, persistent=False)  # w = K(X, X)^-1 Y, (N, O)

    def solve(self, x: Tensor, y: Tensor) -> None:
        kernel = fcn(x).ntk
        self.points, self.weights = x, regress(kernel, kernel, one_hot(y, self.outputs)).weights

    def forward(self, x: Tensor) -> Tensor:
        return fcn(x, self.points).ntk @ self.weights  # (M, O)


def network(net: nn.Module, generator: torch.Generator) -> nn.Module:
    return KernelRegression(net.head.out_features)


def fit(net: nn.Module, x: Tensor, y: Tensor, recipe: Recipe, seed: int, cycle: int, **saving) -> None:
    net.solve(x, y)
    net.eval()


def select(query: Query, size: int, stream: np.random.Generator) -> np.ndarray:
    theta = fcn(images(query)).ntk  # (L + U, L + U)
    state = known(query, theta, theta.new_zeros(len(theta), query.net.outputs))
    return top(OBJECTIVES["mlmoc"](state, state.mean, None), size, stream)
