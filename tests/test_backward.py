"""Backward passes in lockstep, against autograd's own, vector by vector."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd.graph import get_gradient_edge

from bench.kernels import backward as backward_module
from bench.kernels.backward import RULES, _ways, backward, largest

SHAPE = (3, 4, 6, 5)  # n points, C channels, H, W
B = 2


def random(*shape):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


class Twice(torch.autograd.Function):
    """2 a for the first, and nothing passed on to the second, whose gradient is thus zero."""

    @staticmethod
    def forward(ctx, a, b):
        return 2 * a + b

    @staticmethod
    def backward(ctx, g):
        return 2 * g, None


class Scaled(torch.autograd.Function):
    """k a + c b, of arguments that are not all tensors."""

    @staticmethod
    def forward(ctx, k, a, constant, c, b):
        ctx.scales = k, c
        return k * a + constant + c * b

    @staticmethod
    def backward(ctx, g):
        k, c = ctx.scales
        return None, k * g, None, None, c * g


def parts(z):
    first, _, third = z.split([1, 1, 2], 1)
    return first * third


# Operations with a rule of their own
RULED = {
    "convolution": lambda z: F.conv2d(z, random(2, 4, 3, 3), random(2), padding=1),
    "stride 2": lambda z: F.conv2d(z, random(2, 4, 3, 3), stride=2),
    "strip": lambda z: F.conv2d(z, random(2, 4, 1, 3), stride=(1, 2), padding=(0, 1)),
    "groups": lambda z: F.conv2d(z, random(2, 2, 3, 3), groups=2, dilation=2),
    "relu": F.relu,
    "sum": lambda z: z + F.relu(z),
    "difference": lambda z: torch.add(F.relu(z), z, alpha=-3),
    "affine": lambda z: torch.addcmul(random(4, 1, 1), z, random(4, 1, 1), value=2),
    "copy": torch.clone,
    "mean": lambda z: z.mean((2, 3)),
    "mean, from the end": lambda z: z.mean((-1, -2), keepdim=True),
    "linear": lambda z: F.linear(z.mean((2, 3)), random(6, 4), random(6)),
    "linear, scaled": lambda z: torch.addmm(random(6), z.mean((2, 3)), random(4, 6), alpha=3),
    "linear without bias": lambda z: F.linear(z.mean((2, 3)), random(6, 4)),
}
OTHERS = {
    "maximum": lambda z: F.max_pool2d(z, 2),
    "average": lambda z: F.avg_pool2d(z, 2),
    "tanh": torch.tanh,
    "one number": lambda z: z.mean().tanh()[None],
    "view": lambda z: z.reshape(len(z), -1)[:, ::2],
    "product": lambda z: z * F.relu(z),
    "broadcast": lambda z: z + z[:, :1] + z.mean(),
    "transposed convolution": lambda z: F.conv_transpose2d(z, random(4, 2, 3, 3)),
    "one dimension": lambda z: F.conv1d(z.flatten(2), random(2, 4, 3)),
    "mean over channels": lambda z: z.mean((1, 2)),
    "parts": parts,
    "parts joined": lambda z: torch.cat([*z.unbind(1)], 1),
    "function": lambda z: Twice.apply(F.relu(z), z),
    "function of numbers": lambda z: Scaled.apply(2.0, F.relu(z), random(4, 1, 1), 3.0, z),
    "function, number first": lambda z: Scaled.apply(2.0, z, random(4, 1, 1), 3.0, random(*SHAPE)),
    "mean of five dimensions": lambda z: z[:, :, None].mean((-2, -1)),
    "mean of three dimensions": lambda z: z.flatten(1, 2).mean((-2, -1)),
    "other dtype": lambda z: z.float().relu().double() + z,
    "complex": lambda z: torch.view_as_real(torch.fft.fft2(z)).relu(),
    "complex matrix": lambda z: torch.view_as_real((z.mean((2, 3)) + 0j) @ torch.complex(random(4, 6), random(6, 4).T)),
    "same padding": lambda z: F.conv2d(z, random(2, 4, 2, 2), padding="same"),
    "affine, broadcast": lambda z: torch.addcmul(random(4, 1, 1), z[:, :1], random(4, 1, 1)),
}


def found(f, zs, gradients):
    """What `backward` gives, by z."""
    taken = {}
    takers = [(lambda g, k=k: taken.update({k: g.clone()}), get_gradient_edge(z)) for k, z in enumerate(zs)]
    backward(f, gradients, takers)
    return [taken[k] for k in range(len(zs))]


def expected(f, zs, gradients):
    """The same by autograd, one vector at a time."""
    passes = [torch.autograd.grad(f, zs, g, retain_graph=True, materialize_grads=True) for g in gradients]
    return [torch.stack(each) for each in zip(*passes, strict=True)]


def assert_same(f, zs):
    gradients = random(B, *f.shape)
    for one, other in zip(found(f, zs, gradients), expected(f, zs, gradients), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", [*RULED, *OTHERS])
def test_each_operation_passes_on_what_autograd_does(name, layout):
    z = 3 * random(*SHAPE).contiguous(memory_format=layout).requires_grad_()
    assert_same((RULED | OTHERS)[name](z), [z])


@pytest.mark.parametrize("name", RULED)
def test_rules_do_without_a_pass_per_vector(name, monkeypatch):
    monkeypatch.setattr(backward_module, "_one_by_one", None)
    z = 3 * random(*SHAPE).requires_grad_()
    assert_same(RULED[name](z), [z])


def test_every_rule_is_tested():
    met = set()
    for operation in RULED.values():
        z = 3 * random(*SHAPE).requires_grad_()
        f = operation(z)
        met |= {(node.name(), k) for node, operands in _ways(f.grad_fn, {z.grad_fn}).items() for k in operands}
    assert set(RULES) <= met


def test_gradients_of_all_results_on_many_ways():
    first = 3 * random(*SHAPE).requires_grad_()
    second = F.conv2d(F.relu(first), random(4, 4, 3, 3), padding=1)
    third = F.conv2d(F.relu(second) + first, random(4, 4, 1, 1)) + first
    f = F.linear((second * third).mean((2, 3)) + first.mean((2, 3)), random(5, 4))
    assert_same(f, [first, second, third])
    assert_same(f, [second])
    assert_same(f, [f])


def test_results_of_one_operation():
    first, second, third = (3 * random(*SHAPE).requires_grad_()).split([1, 1, 2], 1)
    f = (F.relu(first) * third).mean((2, 3))
    assert_same(f, [first, third])
    assert_same(f, [first, second])  # of which f depends only on one
    assert_same(third, [third])
    assert_same(f, [f, f])


@pytest.mark.parametrize("change", [torch.relu_, lambda z: z.mul_(2), lambda z: z[:, 1].zero_(), lambda z: z.add_(z)])
def test_a_result_changed_in_place_is_that_of_its_operation(change):
    def passed(in_place):
        z = 3 * random(*SHAPE).requires_grad_()
        edge, result = get_gradient_edge(z), z if in_place else z.clone()
        change(result)
        taken = []
        f = F.conv2d(result, random(2, 4, 3, 3)).mean((2, 3))
        backward(f, random(B, *f.shape), [(lambda g: taken.append(g.clone()), edge)])
        return taken[0]

    torch.testing.assert_close(passed(True), passed(False), rtol=0, atol=0)


def test_the_largest_gradient_on_the_way():
    z = 3 * random(*SHAPE).requires_grad_()
    wide = torch.cat([z, z], 1)
    aside = torch.cat([random(100, *SHAPE[1:]).requires_grad_()] * 2).mean()
    f = (wide * aside).mean((2, 3))
    edge = get_gradient_edge(z)
    assert largest(f, [edge]) == wide.numel()
    assert largest(f, [get_gradient_edge(f)]) == f.numel()
    assert largest(f.detach(), [edge]) == 0


def test_what_a_result_does_not_depend_on_has_gradients_of_zero():
    z, other = (3 * random(*SHAPE).requires_grad_() for _ in range(2))
    f = z.mean((2, 3))
    gradients = random(B, *f.shape)
    assert [each.abs().max() > 0 for each in found(f, [z, other], gradients)] == [True, False]
    (nothing,) = found(f.detach(), [z], gradients)
    assert nothing.shape == (B, *SHAPE)
    assert not nothing.any()


def test_gradients_need_no_memory_of_their_own_way_back():
    z = 3 * random(*SHAPE).requires_grad_()
    (g,) = found(F.relu(z).mean((2, 3)), [z], random(B, *SHAPE[:2]))
    assert not g.requires_grad
