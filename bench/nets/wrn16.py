"""WideResNet-16-k of the pseudo-NTK experiments (thesis 3.3 and A.6): two block layers of two residual units.

A.6 fixes the widths, stem 16k, layers 16k and 32k (WF = 16: 256 and 512); depth 16 means (16 - 4) / 6 = 2 units per
layer. The rest (bias, stride on the second convolution, PyTorch's initialisation) is as in `wrn`, the same author's net
of chapter 2, with every shortcut in place.
"""

from torch import nn

from bench.nets._wrn import WideResNet

NAME = "wrn-16"
WIDTH = "widening factor k, the thesis' WF: stem 16k, layers of 16k and 32k channels"


def build(input_shape: tuple[int, int, int], classes: int, width: int) -> nn.Module:
    return WideResNet(input_shape[0], classes, widths=(16 * width, 16 * width, 32 * width), blocks=2)
