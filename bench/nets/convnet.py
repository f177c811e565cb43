"""Plain convolutional net, the ConvNet of thesis 3.3: `depth` 3x3 convolutions, no pooling between, no normalisation.

The thesis says depth 8, "fully-convolutional", and gives only a widening factor. Taken here: stride 1, zero padding
that keeps the size, bias, and, as in its other nets, 16 channels per unit of the factor. `readout` is how the last map
becomes features: `gap`, the mean over positions, which is what "fully-convolutional" suggests, or `flatten`, the other
readout of Lee et al. 2020. He initialisation, as in Setting B: with no normalisation to restore the scale, PyTorch's
default (variance 1/(3n) instead of 2/n) would shrink the signal sixfold in variance at every layer.
"""

from itertools import pairwise

import torch
from torch import nn

from bench.nets._parts import ACTIVATIONS, LAWS, Net, initialise

WIDTH = "widening factor WF: 16 WF channels in every layer"
OPTIONS = {
    "depth": 8,
    "readout": ("gap", "flatten"),
    "activation": ("relu", "leaky-relu", "gelu", "tanh", "erf", "prelu"),
    "init": ("he", "lecun", "truncated", "torch"),
}


class ConvNet(Net):
    def __init__(
        self, input_shape: tuple[int, int, int], classes: int, channels: int, depth: int, readout: str, activation: str
    ):
        super().__init__()
        colours, height, width = input_shape
        sizes = pairwise([colours] + [channels] * depth)
        act = ACTIVATIONS[activation]
        self.convs = nn.Sequential(*(layer for n, m in sizes for layer in (nn.Conv2d(n, m, 3, padding=1), act())))
        self.flat = readout == "flatten"
        self.head = nn.Linear(channels * height * width if self.flat else channels, classes)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        x = self.convs(x)  # (N, 16 WF, H, W)
        return x.flatten(1) if self.flat else x.mean((2, 3))  # (N, 16 WF H W) or (N, 16 WF)


def build(
    input_shape: tuple[int, int, int],
    classes: int,
    width: int,
    depth: int,
    readout: str,
    activation: str,
    init: str,
) -> nn.Module:
    return initialise(ConvNet(input_shape, classes, 16 * width, depth, readout, activation), LAWS[init])
