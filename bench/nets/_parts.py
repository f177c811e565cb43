"""What the nets share: features followed by a head; and the options of the plain ones, activations and laws by name."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import nn


class Net(nn.Module):
    """A net in two steps, f(x) = head(features(x)); a subclass sets `head` and defines `features`."""

    head: nn.Linear

    def features(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x))  # (N, C, H, W) -> (N, d) -> (N, O)


class Erf(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.erf(x)


# Thesis A.7.5 varies the nonlinearity of the FCN; Setting B names ReLU, GeLU and PReLU, the figures name none.
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "leaky-relu": nn.LeakyReLU,  # slope 0.01
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "erf": Erf,
    "prelu": nn.PReLU,  # one learnt slope per place, 0.25 at first; a parameter, so part of the tangent kernel
}


def _truncated(weight: torch.Tensor) -> None:
    """He's variance 2/n from a normal cut at two of its standard deviations (thesis A.7: any sub-Gaussian law will do).

    Cutting N(0, 1) at +-2 leaves a standard deviation of 0.8796, so the normal before the cut is that much wider.
    """
    std = math.sqrt(2 / weight[0].numel()) / 0.87962566103423978
    nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)


# Laws of the weights of Linear and Conv2d, n the fan-in: inputs of a unit, k^2 times the channels of a convolution.
LAWS: dict[str, Callable[[torch.Tensor], object] | None] = {
    "he": partial(nn.init.kaiming_normal_, nonlinearity="relu"),  # N(0, 2/n), He et al. 2015
    # N(0, 1/n). Thesis Setting B prints this variance and calls it He's: an erratum, it is LeCun's.
    "lecun": partial(nn.init.kaiming_normal_, nonlinearity="linear"),
    "truncated": _truncated,
    "torch": None,  # PyTorch's own, U(-1/sqrt n, 1/sqrt n), biases too
}


def initialise(net: Net, law: Callable[[torch.Tensor], object] | None) -> Net:
    """Redraw the weights by the law, if any, and zero the biases. Batch normalisation stays at scale 1, offset 0."""
    if law is not None:
        for layer in net.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                law(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
    return net
