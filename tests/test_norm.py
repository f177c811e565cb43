"""Batch norm with fixed statistics: its share of the kernel where rounding matters, and with some parameters only."""

import copy

import pytest
import torch
from definition import assert_close, jacobian, theta_of
from test_nets import images
from torch import nn

from bench.kernels.empirical import gram
from bench.kernels.norm import BatchNorm


@pytest.mark.parametrize("output", ["full", "pseudo"])
def test_batch_norm_whose_means_are_far_from_zero(output, monkeypatch):
    """Channels of a thousand deviations' mean: d/dgamma as a difference of sums would lose three digits in float32."""
    torch.manual_seed(0)
    bn = nn.BatchNorm2d(3)
    bn.running_mean.fill_(1000.0)
    net = nn.Sequential(bn, nn.Tanh(), nn.Flatten(), nn.Linear(48, 2)).eval()
    x = 1000 + torch.randn(4, 3, 4, 4)
    exact = gram(copy.deepcopy(net).double(), x.double(), output=output, layers=["0"])
    assert_close(gram(net, x, output=output, layers=["0"]), exact, 5e-6)
    if output == "pseudo":
        monkeypatch.setattr(BatchNorm, "FAR", float("inf"))
        with pytest.raises(AssertionError):
            assert_close(gram(net, x, output=output, layers=["0"]), exact, 5e-6)


@pytest.mark.parametrize("options", [{"affine": False}, {"bias": False}])
def test_batch_norm_without_all_of_its_parameters(options):
    net = nn.Sequential(nn.BatchNorm2d(2, **options), nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(48, 2))
    net, x = net.double().eval(), images(3, (2, 6, 6)).double()
    net[0].running_mean.copy_(torch.tensor([0.5, -0.3]))
    net[0].running_var.copy_(torch.tensor([2.0, 0.7]))
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))
