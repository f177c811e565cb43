"""ResNet18 in its CIFAR form (thesis 2.4 and 3.3): 3x3 stem without pooling, four stages of two post-activation blocks.

As in the released code: no convolution has a bias, the shortcut is a 1x1 convolution with batch normalisation where the
shape changes and the identity elsewhere, weights are as PyTorch draws them. Thesis A.6 sets the base width to 16 WF, so
WF = 4 is the classical 64-128-256-512 net, the one of chapter 2.
"""

import torch
from torch import nn

from bench.nets._parts import Net

WIDTH = "widening factor WF: stages of 16 WF, 32 WF, 64 WF and 128 WF channels"


class Block(nn.Module):
    """Basic block of He et al. 2016: conv, BN, ReLU, conv, BN, plus the shortcut, ReLU."""

    def __init__(self, c_in: int, c_out: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, padding=1, bias=False)
        self.bn1, self.act1 = nn.BatchNorm2d(c_out), nn.ReLU()
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1, bias=False)
        self.bn2, self.act2 = nn.BatchNorm2d(c_out), nn.ReLU()
        self.shortcut = nn.Identity()
        if stride > 1 or c_in != c_out:
            self.shortcut = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.act1(self.bn1(self.conv1(x)))  # (N, c_out, H / stride, W / stride)
        return self.act2(self.bn2(self.conv2(h)) + self.shortcut(x))


class ResNet18(Net):
    def __init__(self, colours: int, classes: int, base: int):
        super().__init__()
        self.conv = nn.Conv2d(colours, base, 3, padding=1, bias=False)
        self.bn, self.act = nn.BatchNorm2d(base), nn.ReLU()
        self.stages = nn.Sequential()
        c_in = base
        for c_out, stride in ((base, 1), (2 * base, 2), (4 * base, 2), (8 * base, 2)):
            first, second = Block(c_in, c_out, stride), Block(c_out, c_out, 1)
            self.stages.append(nn.Sequential(first, second))
            c_in = c_out
        self.head = nn.Linear(8 * base, classes)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.bn(self.conv(x)))  # (N, base, H, W)
        x = self.stages(x)  # (N, 8 base, H / 8, W / 8)
        return x.mean((2, 3))  # (N, 8 base)


def build(input_shape: tuple[int, int, int], classes: int, width: int) -> nn.Module:
    return ResNet18(input_shape[0], classes, 16 * width)
