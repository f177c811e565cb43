"""Theta = J J^T by its definition, for tests to compare with: J from torch.func, one point at a time."""

from functools import cache

import pytest
import torch
from test_nets import images, shaken, small
from torch import nn
from torch.func import functional_call, jacrev

from bench.core.errors import UserError
from bench.kernels.convolution import ConvFactors, ConvGhost, ConvRows
from bench.kernels.empirical import gram

WAYS = {"rows": ConvRows, "factors": ConvFactors, "ghost": ConvGhost}


def jacobian(net, x, layers=None):
    """J (N, O, P) by definition, one point at a time."""
    parameters = {
        name: value.detach()
        for name, value in net.named_parameters()
        if value.requires_grad and (layers is None or any(name.startswith(f"{layer}.") for layer in layers))
    }

    def outputs(parameters, point):
        return functional_call(net, parameters, (point[None],))[0]  # (O,)

    rows = []
    for point in x:
        j = jacrev(outputs)(parameters, point)  # {name: (O, *shape)}
        rows.append(torch.cat([each.flatten(1) for each in j.values()], 1))
    return torch.stack(rows)


def theta_of(j1, j2, output="full"):
    """Theta from its definition, in float64."""
    j1, j2 = j1.double(), j2.double()
    o = j1.shape[1]
    if output == "full":
        return j1.flatten(0, 1) @ j2.flatten(0, 1).T
    if output == "trace":
        return j1.flatten(1) @ j2.flatten(1).T
    if output == "pseudo":
        return j1.sum(1) @ j2.sum(1).T / o
    k = 0 if output == "first" else output
    return j1[:, k] @ j2[:, k].T


def assert_close(found, expected, tolerance=1e-12):
    assert found.shape == expected.shape
    error = (found.double() - expected.double()).abs().max() / expected.double().abs().max()
    assert error.item() <= tolerance


def error_of(work, *words):
    with pytest.raises(UserError) as caught:
        work()
    for word in words:
        assert word in str(caught.value)


def least_budget(net, x, output):
    with pytest.raises(UserError) as caught:
        gram(net, x, output=output, budget=1)
    return int(str(caught.value).split("needs ")[1].split(" bytes")[0].replace(",", ""))


EVERY_WAY = [*WAYS, None]
every_way = pytest.mark.parametrize("way", EVERY_WAY, indirect=True)


@cache
def example():
    """A trained-looking ResNet18 and its J: strides, shortcuts, batch norms; (5, 3, P)."""
    net, x = shaken(small("resnet18")), images(5, (1, 8, 8)).double()
    return net, x, jacobian(net, x)


def smooth(net):
    """The net with tanh for its ReLUs: no kink at which rounding decides."""
    for module in list(net.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.ReLU):
                setattr(module, name, nn.Tanh())
    return net


class Mean(nn.Module):
    """Over positions."""

    def forward(self, x):
        return x.mean((2, 3))
