"""The weights of a network as text: the same network comes back, to the last bit, or an error does."""

import base64

import numpy as np
import pytest
import torch
from torch import nn

from bench import nets
from bench.core.errors import UserError
from bench.core.seeds import torch_stream
from bench.learn.weights import as_text, load_text

SHAPE = (1, 8, 8)


def build(seed: int, width: int = 8) -> nn.Module:
    return nets.build("wrn-small+layers=1", SHAPE, 10, width, torch_stream(seed, "init"))


def used(seed: int) -> nn.Module:
    """A network whose batch normalisation has seen something."""
    net = build(seed).to(memory_format=torch.channels_last).train()
    for step in range(3):
        net(torch.rand(7, *SHAPE, generator=torch_stream(seed, "x", step)))
    return net.eval()


def assert_same(a: nn.Module, b: nn.Module) -> None:
    for (name, ours), (other, theirs) in zip(a.state_dict().items(), b.state_dict().items(), strict=True):
        assert name == other
        assert ours.dtype == theirs.dtype, name
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def test_a_network_comes_back_with_its_running_statistics():
    net, other = used(0), build(1).eval()
    x = torch.rand(5, *SHAPE, generator=torch_stream(0, "test"))
    with torch.no_grad():
        assert not torch.equal(net(x), other(x))
        load_text(other, as_text(net))
        assert torch.equal(net.to(memory_format=torch.contiguous_format)(x), other(x))
    assert_same(net, other)
    counts = [value for name, value in other.state_dict().items() if name.endswith("num_batches_tracked")]
    assert counts
    assert all(count == 3 and count.dtype == torch.int64 for count in counts)


def test_the_layout_in_memory_changes_no_text():
    net = used(0)
    assert as_text(net) == as_text(net.to(memory_format=torch.contiguous_format))


def test_a_text_is_all_numbers_in_order_as_float32():
    net = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.5, -2.0]]))
        net[0].bias.fill_(0.25)
    text = as_text(net)
    assert text.isascii()
    numbers = np.frombuffer(base64.b64decode(text), dtype="<f4")
    assert numbers.tolist() == [1.5, -2.0, 0.25, 1, 0, 0, 1, 0]  # then scale, shift, mean, variance, count


def test_every_float32_comes_back():
    odd = [0.0, -0.0, 1e-45, -1e-38, 3.4028235e38, float("inf"), -float("inf"), float("nan"), 1 / 3]
    net, other = nn.Linear(len(odd), 1, bias=False), nn.Linear(len(odd), 1, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([odd]))
    load_text(other, as_text(net))
    assert net.weight.detach().numpy().tobytes() == other.weight.detach().numpy().tobytes()


def test_counts_are_exact_below_2_to_the_24():
    net, other = nn.BatchNorm1d(1), nn.BatchNorm1d(1)
    net.num_batches_tracked.fill_(2**24 - 1)
    load_text(other, as_text(net))
    assert int(other.num_batches_tracked) == 2**24 - 1


def test_what_is_loaded_is_a_copy_that_can_be_trained():
    net, other = used(0), build(1)
    text = as_text(net)
    load_text(other, text)
    other.train()(torch.rand(4, *SHAPE)).square().mean().backward()
    torch.optim.SGD(other.parameters(), lr=0.1).step()
    assert as_text(net) == text != as_text(other)


def test_weights_of_another_shape_are_refused_and_change_nothing():
    net = build(0, width=12)
    before = as_text(net)
    size = sum(tensor.numel() for tensor in net.state_dict().values())
    with pytest.raises(UserError, match=f"but the network has {size:,}; run the cell that made them again"):
        load_text(net, as_text(build(0)))
    assert as_text(net) == before
