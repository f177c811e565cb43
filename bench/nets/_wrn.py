"""The pre-activation wide residual net (Zagoruyko and Komodakis 2016) that wrn, wrn-16 and wrn-28 are cases of."""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from bench.nets._parts import Net

Layer = Callable[..., nn.Module]


class Unit(nn.Module):
    """One residual unit: BN, activation, 3x3 conv, BN, activation, 3x3 conv, plus the shortcut.

    `strides` of the two convolutions: the codes disagree on which one carries the layer's stride.
    `shared`: the first BN and activation serve the shortcut too; otherwise it sees the raw input.
    `identity`: whether the input is added back where a unit keeps the shape.
    """

    def __init__(
        self,
        c_in: int,
        c_out: int,
        strides: tuple[int, int],
        act: Layer,
        norm: Layer,
        bias: bool,
        shared: bool,
        identity: bool,
    ):
        super().__init__()
        stride = strides[0] * strides[1]
        self.bn1, self.act1 = norm(c_in), act()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, strides[0], padding=1, bias=bias)
        self.bn2, self.act2 = norm(c_out), act()
        self.conv2 = nn.Conv2d(c_out, c_out, 3, strides[1], padding=1, bias=bias)
        self.shared = shared
        if stride > 1 or c_in != c_out:
            self.shortcut = nn.Conv2d(c_in, c_out, 1, stride, bias=bias)
        else:
            self.shortcut = nn.Identity() if identity else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.act1(self.bn1(x))  # (N, c_in, H, W)
        x = h if self.shared else x
        h = self.conv2(self.act2(self.bn2(self.conv1(h))))  # (N, c_out, H / stride, W / stride)
        return h if self.shortcut is None else self.shortcut(x) + h


class WideResNet(Net):
    """Stem of widths[0] channels, one layer of `blocks` units for each further width, BN, activation, mean, head.

    The first layer keeps the size of the image, every later one halves it. The defaults are those of the thesis'
    released code; `early_stride` and `shared_first` are the conventions of the semi-supervised codes.
    """

    def __init__(
        self,
        colours: int,
        classes: int,
        widths: Sequence[int],
        blocks: int,
        act: Layer = nn.ReLU,
        norm: Layer = nn.BatchNorm2d,
        bias: bool = True,
        early_stride: bool = False,
        shared_first: bool = False,
        identity: bool = True,
    ):
        super().__init__()
        self.stem = nn.Conv2d(colours, widths[0], 3, padding=1, bias=bias)
        self.stages = nn.Sequential()
        c_in = widths[0]
        for number, c_out in enumerate(widths[1:]):
            stage = nn.Sequential()
            for block in range(blocks):
                stride = 2 if number > 0 and block == 0 else 1
                strides = (stride, 1) if early_stride else (1, stride)
                shared = shared_first and number == block == 0
                stage.append(Unit(c_in, c_out, strides, act, norm, bias, shared, identity))
                c_in = c_out
            self.stages.append(stage)
        self.bn, self.act = norm(c_in), act()
        self.head = nn.Linear(c_in, classes)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stages(self.stem(x))  # (N, widths[-1], H / 2^(layers - 1), W / 2^(layers - 1))
        return self.act(self.bn(x)).mean((2, 3))  # (N, widths[-1])
