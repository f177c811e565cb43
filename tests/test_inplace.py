"""Kernels of nets that compute in place: torchvision's ResNets as they are, and each way a layer may meet it."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from definition import Mean, assert_close, jacobian, least_budget, theta_of
from test_nets import NETS, images, shaken, small
from torch import Tensor, nn

from bench.kernels import tangents as tangents_module
from bench.kernels.empirical import gram
from bench.kernels.layers import Readout
from bench.kernels.tail import ConvTail
from bench.kernels.tangents import Tangents
from bench.learn.vision import torchvision

OUTPUTS = ["full", "pseudo", "first", "trace"]

# torchvision's ResNets


def basic(block, x):
    """The forward pass of a BasicBlock, not in place."""
    z = block.bn2(block.conv2(block.relu(block.bn1(block.conv1(x)))))
    return block.relu(z + (x if block.downsample is None else block.downsample(x)))


def bottleneck(block, x):
    z = block.relu(block.bn2(block.conv2(block.relu(block.bn1(block.conv1(x))))))
    return block.relu(block.bn3(block.conv3(z)) + (x if block.downsample is None else block.downsample(x)))


def resnet(name):
    torch.manual_seed(0)
    return shaken(getattr(torchvision.models, name)(num_classes=3))


def without_in_place(net):
    blocks = {torchvision.models.resnet.BasicBlock: basic, torchvision.models.resnet.Bottleneck: bottleneck}
    for module in net.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = False
        if type(module) in blocks:
            module.forward = partial(blocks[type(module)], module)
    return net


@pytest.mark.parametrize(("name", "n"), [("resnet18", 3), pytest.param("resnet50", 2, marks=pytest.mark.slow)])
def test_resnets_of_torchvision(name, n):
    net, other, x = resnet(name), without_in_place(resnet(name)), images(n, (3, 32, 32)).double()
    assert torch.equal(net(x), other(x))
    j = jacobian(net, x)
    for output in OUTPUTS:
        theta = gram(net, x, output=output)
        assert_close(theta, theta_of(j, j, output))
        assert_close(theta, gram(other, x, output=output), 1e-13)
        assert_close(gram(net, x[:1], x[1:], output=output), theta_of(j[:1], j[1:], output))


@pytest.mark.parametrize("side", [32, 64])  # the last maps have one position, or four
@pytest.mark.parametrize(("name", "last"), [("resnet18", "layer4.1.conv2"), ("resnet50", "layer4.2.conv3")])
def test_resnets_of_torchvision_have_a_tail_and_need_no_copies(name, last, side, monkeypatch):
    net, x, layers = resnet(name), images(2, (3, side, side)).double(), [last, "fc"]
    monkeypatch.setattr(tangents_module, "TAIL", 0)
    expected = gram(net, x, layers=layers)
    monkeypatch.setattr(tangents_module, "TAIL", 1e9)  # whatever it keeps
    tangents = Tangents(net, x, None, "full", layers)
    assert [type(layer) for layer in tangents.layers] == [ConvTail, Readout]
    assert not tangents.copied
    assert not tangents.copies_x
    assert_close(gram(net, x, layers=layers), expected)


# Small nets


class Stack(nn.Module):
    """Some layers of maps, or of rows, and what is done with them."""

    def __init__(self, forward, maps=False):
        super().__init__()
        layers = [nn.Conv2d(3, 3, 3, padding=1) if maps else nn.Linear(5, 5) for _ in range(3)]
        self.first, self.second, self.third = layers
        self.norm, self.slope, self.mean = nn.BatchNorm2d(3), nn.PReLU(), Mean() if maps else nn.Identity()
        self.head, self.way = nn.Linear(3 if maps else 5, 2), forward
        for name in ("norm", "slope", "second", "third"):  # every layer there is must be called
            if name not in forward.__code__.co_names:
                setattr(self, name, None)

    def forward(self, x):
        return self.way(self, x)


def output_of_a_dense_layer(net, x):
    return net.head(net.mean(net.first(x).relu_()))


def output_of_a_norm(net, x):
    return net.head(net.mean(net.second(net.norm(net.first(x)).relu_()).relu_()))


def outputs_of_two_layers(net, x):
    z = net.first(x)
    z += net.second(x)
    z += net.third(x.relu())
    return net.head(net.mean(z))


def output_by_a_view(net, x):
    z = net.first(x)
    z.view(len(z), -1)[:, ::2].mul_(3)
    z[:, 0] = 1
    return net.head(net.mean(z.tanh()))


def output_of_the_head(net, x):
    f = net.head(net.mean(net.first(x)))
    f *= 2
    return f


def input_of_a_layer(net, x):
    h = net.first(x).relu() * 2
    z = net.second(h)
    h += z
    return net.head(net.mean(h))


def input_that_is_an_output(net, x):
    h = net.first(x)
    z = net.second(h)
    return net.head(net.mean(h.mul_(2).add_(z)))


def input_of_slopes(net, x):
    h = net.first(x)
    z = net.slope(h)
    h *= 2
    return net.head(net.mean(h + z))


def input_of_the_head(net, x):
    h = net.mean(net.first(x))
    f = net.head(h)
    h *= 2
    return f + h[:, :2]


def points(net, x):
    x -= 1
    return net.head(net.mean(net.first(x).relu_()))


def points_later(net, x):
    z = net.first(x)
    x *= 2
    return net.head(net.mean(z.mul_(net.second(x))))


WAYS = {  # what is changed: layers that need a copy of their input
    output_of_a_dense_layer: set(),
    outputs_of_two_layers: set(),
    output_by_a_view: set(),
    output_of_the_head: set(),
    input_of_a_layer: {"second"},
    input_that_is_an_output: {"second"},
    input_of_slopes: {"slope"},
    input_of_the_head: {"head"},
    points: set(),
    points_later: {"first"},
    output_of_a_norm: set(),
}
CASES = [(way, maps) for way in WAYS for maps in (False, True) if maps or way is not output_of_a_norm]


def with_copies(net):
    """The same net whose layers get and give copies, as it gets itself, so that nothing they need is ever changed."""
    net = deepcopy(net)
    for module in [net, *net.children()]:
        module.register_forward_pre_hook(lambda _module, inputs: inputs[0].clone())
        module.register_forward_hook(lambda _module, _inputs, z: z.clone())
    return net


@pytest.mark.parametrize(("way", "maps"), CASES)
def test_what_is_changed_in_place(way, maps):
    torch.manual_seed(0)
    net, x = shaken(Stack(way, maps)), images(4, (3, 5, 5) if maps else (5,)).double()
    before, j = x.clone(), jacobian(with_copies(net), x)
    for output in OUTPUTS:
        assert_close(gram(net, x, output=output), theta_of(j, j, output))
        assert_close(gram(net, x[:1], x[1:], output=output), theta_of(j[:1], j[1:], output))
    assert torch.equal(x, before)
    tangents = Tangents(net, x, None, "full", None)
    assert tangents.copied == WAYS[way]
    assert tangents.copies_x == (way in (points, points_later))


@pytest.mark.parametrize("maps", [False, True])
def test_in_a_stack_and_in_many_passes(maps):
    """In-place activations after dense layers, convolutions and norms, of points in tiles of one."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True)]
    stack = [*layers, nn.AdaptiveAvgPool2d(1)] if maps else []
    net = nn.Sequential(*stack, nn.Flatten(), nn.Linear(4, 6), nn.ELU(inplace=True), nn.Linear(6, 2))
    net, x = shaken(net), images(5, (2, 7, 7) if maps else (4,)).double()
    j = jacobian(net, x)
    for output in OUTPUTS:
        assert_close(gram(net, x, output=output), theta_of(j, j, output))
        assert_close(gram(net, x, output=output, budget=least_budget(net, x, output)), theta_of(j, j, output))


@pytest.mark.parametrize("spec", NETS)
def test_nets_that_compute_nothing_in_place_are_not_copied(spec, monkeypatch):
    net, x, passes = shaken(small(spec)), images(4, (1, 8, 8)).double(), []
    net.register_forward_pre_hook(lambda _module, inputs: passes.append(len(inputs[0])))
    monkeypatch.setattr(Tensor, "clone", None)
    tangents = Tangents(net, x, None, "full", None)
    assert not tangents.copied
    assert not tangents.copies_x
    assert len(passes) == 1
