"""The convolution before mean and read-out: what is one and what is not, and its kernel."""

import pytest
import torch
import torch.nn.functional as F
from definition import Mean, assert_close, jacobian, theta_of
from test_nets import images, shaken
from torch import nn

from bench.kernels.empirical import gram
from bench.kernels.tail import ConvTail
from bench.kernels.tangents import Tangents


def used_twice(z, before):
    means = z.mean((2, 3), keepdim=True)
    return means.flatten(1) + means.sum(1).flatten(1)


TAILS = {  # name: (what becomes of the last map z, whether each channel goes its own way)
    "mean": (lambda z, before: z.mean((2, 3)), True),
    "mean, dimensions from the end": (lambda z, before: z.mean((-1, -2)), True),
    "pooled to one position": (lambda z, before: F.adaptive_avg_pool2d(z.relu_(), 1).flatten(1), True),
    "mean kept as a map": (lambda z, before: z.mean((2, 3), keepdim=True).view(len(z), 6), True),
    "mean kept as a map, and used": (used_twice, False),
    "copied": (lambda z, before: z.clone().mul_(before).mean((2, 3)), True),
    "flattened maps": (lambda z, before: F.adaptive_avg_pool2d(z, (1, 2))[..., :1].flatten(1), False),
    "elementwise": (lambda z, before: F.gelu(F.leaky_relu(z) + z.tanh().erf()).mean((2, 3)), True),
    "pooled": (lambda z, before: (F.max_pool2d(z, 2) + F.avg_pool2d(z, 2)).mean((2, 3)), True),
    "sum with a map": (lambda z, before: (z + before).relu().mean((2, 3)), True),
    "sum with all maps": (lambda z, before: (z + z.sum(1, keepdim=True)).mean((2, 3)), False),
    "softmax": (lambda z, before: z.softmax(1).mean((2, 3)), False),
    "other channels": (lambda z, before: (z + z.flip(1)).mean((2, 3)), False),
    "product with a map": (lambda z, before: (z * before * z).mean((2, 3)), True),
    "product with all maps": (lambda z, before: (z * z.sum(1, keepdim=True)).mean((2, 3)), False),
    "quotient": (lambda z, before: (z / (1 + before**2)).mean((2, 3)), False),  # not among those known
    "mean over channels": (lambda z, before: z.mean((1, 2)), False),  # as many rows as channels
    "features from means": (lambda z, before: z.mean((2, 3)).softmax(1), False),
}


class Tailed(nn.Module):
    def __init__(self, tail):
        super().__init__()
        self.first, self.last, self.head = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1), nn.Linear(6, 3)
        self.tail = tail

    def forward(self, x):
        before = self.first(x).tanh()
        return self.head(self.tail(self.last(before), before))


@pytest.mark.parametrize("name", TAILS)
def test_the_tail_is_where_every_channel_goes_its_own_way(name):
    """Of a net whose maps have as many rows and columns as channels."""
    tail, alone = TAILS[name]
    net, x = Tailed(tail).double(), images(5, (2, 6, 6)).double()
    found = {layer.site.name: type(layer) for layer in Tangents(net, x, None, "full", None).layers}
    assert (found["last"] is ConvTail) == alone
    assert found["first"] is not ConvTail
    j = jacobian(net, x)
    for output in ("full", "trace"):
        assert_close(gram(net, x, output=output), theta_of(j, j, output))
        assert_close(gram(net, x[:2], x[2:], output=output), theta_of(j[:2], j[2:], output))


class Gated(nn.Module):
    """Maps weighted by a dense layer of their means."""

    def __init__(self):
        super().__init__()
        self.conv, self.gate, self.head = nn.Conv2d(2, 4, 3), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        z = self.conv(x).tanh()
        return self.head((z * self.gate(z.mean((2, 3)))[:, :, None, None].sigmoid()).mean((2, 3)))


@pytest.mark.parametrize("layers", [None, ["gate", "head"]])
def test_dense_layers_before_the_mean(layers):
    net, x = Gated().double(), images(4, (2, 6, 6)).double()
    j = jacobian(net, x, layers)
    assert not any(isinstance(layer, ConvTail) for layer in Tangents(net, x, None, "full", layers).layers)
    assert_close(gram(net, x, layers=layers), theta_of(j, j))


def test_many_outputs_of_a_tail():
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), Mean(), nn.Linear(3, 700)).double()
    x = images(3, (2, 6, 6)).double()
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))


def test_a_single_channel_repeated_is_no_tail():
    net = nn.Sequential(nn.Conv2d(2, 1, 3), Repeated(4), Mean(), nn.Linear(4, 3)).double()
    x = images(4, (2, 6, 6)).double()
    assert not any(isinstance(layer, ConvTail) for layer in Tangents(net, x, None, "full", None).layers)
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))


class Repeated(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = torch.arange(channels)[:, None, None]

    def forward(self, z):
        return (z + self.scale).tanh()


@pytest.mark.parametrize("frozen", ["0.weight", "0.bias", "1.weight", "3.weight"])
def test_the_tail_of_a_net_that_is_all_tail(frozen):
    """The convolution takes the gradient of phi alone, and nothing lies before it."""
    net = nn.Sequential(nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5), Mean(), nn.Linear(5, 3))
    net, x = shaken(net.eval()), images(70, (2, 6, 6)).double()  # more points than in one block
    net.get_parameter(frozen).requires_grad_(False)
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))
