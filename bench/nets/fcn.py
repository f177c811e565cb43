"""Fully-connected net, the FCN of thesis 3.3 and A.6: `depth` equal hidden layers on the flattened image.

Depth 3 follows Lee et al. 2019, 2020. The theorems of thesis A.7 are about this net, initialised as He et al. with zero
biases, so that is the default; A.7.5 varies `activation` and the law of the weights (`init=truncated`).
`widen` is where the width applies: to `all` hidden layers, or to the `last` or the `first` alone, the others having
NARROW units. A later version of the paper claims convergence for any net whose read-out layer is wide.
"""

import math
from itertools import pairwise

import torch
from torch import nn

from bench.nets._parts import ACTIVATIONS, LAWS, Net, initialise

WIDTH = "hidden units in every layer that `widen` names"
NARROW = 64
OPTIONS = {
    "depth": 3,
    "activation": ("relu", "leaky-relu", "gelu", "tanh", "erf", "prelu"),
    "init": ("he", "lecun", "truncated", "torch"),
    "widen": ("all", "last", "first"),
}


class FCN(Net):
    def __init__(self, inputs: int, classes: int, widths: list[int], activation: str):
        super().__init__()
        sizes = pairwise([inputs, *widths])
        act = ACTIVATIONS[activation]
        self.hidden = nn.Sequential(*(layer for n, m in sizes for layer in (nn.Linear(n, m), act())))
        self.head = nn.Linear(widths[-1], classes)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return self.hidden(x.flatten(1))  # (N, C, H, W) -> (N, C H W) -> (N, d)


def build(
    input_shape: tuple[int, int, int], classes: int, width: int, depth: int, activation: str, init: str, widen: str
) -> nn.Module:
    widths = [width] * depth
    if widen != "all":
        widths = [NARROW] * depth
        widths[-1 if widen == "last" else 0] = width
    return initialise(FCN(math.prod(input_shape), classes, widths, activation), LAWS[init])
