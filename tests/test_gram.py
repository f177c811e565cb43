"""Empirical tangent kernels against Theta = J J^T with J from torch.func: nets, layers, outputs, mistakes."""

from itertools import combinations

import pytest
import torch
from definition import (
    EVERY_WAY,
    WAYS,
    Mean,
    assert_close,
    error_of,
    every_way,
    example,
    jacobian,
    least_budget,
    theta_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from speeds import every, some
from test_nets import NETS, SPECS, build, images, shaken, small
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from bench.kernels import convolution as convolution_module
from bench.kernels import layers as layers_module
from bench.kernels import tangents as tangents_module
from bench.kernels.convolution import ConvFactors, ConvGhost, ConvRows
from bench.kernels.empirical import flops, gram
from bench.kernels.layers import Readout, Rows
from bench.kernels.tail import ConvTail
from bench.kernels.tangents import Tangents

# Against the definition


@some("spec", SPECS, daily=2, always=NETS)
def test_every_net_and_option_in_float64(spec):
    net, x = shaken(small(spec)), images(4, (1, 8, 8)).double()
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))
    assert_close(gram(net, x[:1], x[1:], output="pseudo"), theta_of(j[:1], j[1:], "pseudo"))


@every(
    "name, times, classes",
    NETS,
    [1, 2],
    [1, 3, 10],
    daily=0,
    always=[(name, 1, 1) for name in ("convnet", "fcn", "wrn-16")],
)
def test_every_net_at_two_widths_with_few_and_many_outputs(name, times, classes):
    width = {"fcn": 8, "wrn": 8}.get(name, 1) * times
    net, x = shaken(build(name, width, (2, 8, 8), classes)), images(5, (2, 8, 8)).double()
    j = jacobian(net, x)
    for output in ("full", "pseudo"):
        assert_close(gram(net, x, output=output), theta_of(j, j, output))
        assert_close(gram(net, x[:2], x[2:], output=output), theta_of(j[:2], j[2:], output))


@every(
    "way, output, classes", EVERY_WAY, ["full", "pseudo", "first", "trace", 0], [1, 3, 10], daily=8, indirect=["way"]
)
def test_every_output_in_every_way(way, output, classes):
    net, x = shaken(small("wrn+layers=2", (2, 7, 6), classes)), images(5, (2, 7, 6)).double()
    j = jacobian(net, x)
    assert_close(gram(net, x, output=output), theta_of(j, j, output))
    assert_close(gram(net, x[:2], x[2:], output=output), theta_of(j[:2], j[2:], output))


CIFAR = [("convnet+depth=3", 1), ("resnet18", 1), ("wrn", 32), ("wrn-16", 1), ("wrn-16", 2), ("wrn-28", 1), ("fcn", 33)]


@some(
    "way, spec, width",
    [(way, *sized) for way in EVERY_WAY for sized in CIFAR],
    always=[("factors", "wrn-16", 1), (None, "fcn", 33)],
    indirect=["way"],
)
def test_float32_on_cifar_sizes(way, spec, width):
    """Against J of the same float32 forward passes: in float64 some ReLU would have the other sign."""
    net, x = shaken(build(spec, width, (3, 32, 32), 3)).float(), images(3, (3, 32, 32))
    j = jacobian(net, x)
    for output in ("full", "trace", "pseudo"):
        found = gram(net, x, output=output)
        assert found.dtype == torch.float32
        assert_close(found, theta_of(j, j, output), 5e-6)
        assert_close(gram(net, x[:1], x[1:], output=output), theta_of(j[:1], j[1:], output), 5e-6)


@every("classes, most", [1, 10], [layers_module.SMALL, 1], daily=0, always=[(1, 1)])
def test_float32_of_one_and_of_many_outputs(classes, most, monkeypatch):
    monkeypatch.setattr(layers_module, "SMALL", most)  # rows of a Theta that is computed in strips; above, in blocks
    net, x = shaken(build("resnet18", 1, (3, 16, 16), classes)).float(), images(4, (3, 16, 16))
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j), 5e-6)
    assert_close(gram(net, x[:1], x[1:]), theta_of(j[:1], j[1:]), 5e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 5e-6)])
def test_many_rows(dtype, tolerance):
    """More than are computed in strips, at the engine's own sizes of blocks."""
    net, x = shaken(build("wrn", 8, (3, 8, 8), 10)).to(dtype), images(60, (3, 8, 8)).to(dtype)
    assert layers_module.SMALL < 10 * 54
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j), tolerance)
    assert_close(gram(net, x[:6], x[6:]), theta_of(j[:6], j[6:]), tolerance)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU: run on a machine with one")
@pytest.mark.parametrize("output", ["full", "pseudo", "trace"])
@pytest.mark.parametrize("spec", ["resnet18", "wrn-28", "fcn"])
def test_on_a_gpu(spec, output, tmp_path):
    net, x = shaken(small(spec)), images(4, (1, 8, 8)).double()
    j = jacobian(net, x)
    net.cuda()
    theta = gram(net, x, output=output)
    assert theta.device.type == "cuda"
    assert_close(theta.cpu(), theta_of(j, j, output))
    streamed = gram(net, x, output=output, out=tmp_path / "theta.npy")
    assert streamed.device.type == "cpu"
    assert_close(streamed, theta_of(j, j, output))


@every(
    *("way, kernel, stride, padding", EVERY_WAY, [1, 2, 3, (3, 2), 5], [1, 2, (1, 3)], [0, 2, (0, 1)]),
    daily=16,
    indirect=["way"],
)
def test_convolutions_of_any_geometry(way, kernel, stride, padding):
    torch.manual_seed(0)
    conv = nn.Conv2d(2, 3, kernel, stride, padding)
    net = nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.LazyLinear(2)).double()
    x = torch.randn(3, 2, 7, 6, dtype=torch.double)
    net(x)
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))


def test_same_padding_of_even_kernels():
    net = nn.Sequential(nn.Conv2d(1, 3, (4, 2), padding="same"), nn.Tanh(), nn.Flatten(), nn.Linear(75, 2)).double()
    x = images(3, (1, 5, 5)).double()
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))


def test_prelu_with_a_slope_per_channel():
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.PReLU(3), nn.Flatten(), nn.Linear(48, 4), nn.PReLU(4), nn.Linear(4, 2))
    net, x = net.double(), images(3, (1, 6, 6)).double()
    j = jacobian(net, x)
    for output in ("full", "trace"):
        assert_close(gram(net, x, output=output), theta_of(j, j, output))


class Viewed(nn.Module):
    """Rows of features from maps as they lie in memory."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Linear(48, 2)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).relu().view(len(x), -1))


@every_way
def test_a_net_that_views_maps_as_rows(way):
    net, x = shaken(Viewed()), images(5, (1, 4, 4)).double()
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))
    assert_close(gram(net, x, output="pseudo"), theta_of(j, j, "pseudo"))
    net.norm.forward = lambda a: a.view(7)  # any other mistake is torch's to tell
    with pytest.raises(RuntimeError, match="invalid for input"):
        gram(net, x)


class Gain(nn.Module):
    """z = gain a, number by number."""

    def __init__(self, size):
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(0.5, 2, size))

    def forward(self, a):
        return self.gain * a


class GainRows(Rows):
    """d/dgain = g a."""

    def room(self):
        return [(self.site.rows, self.site.backwards // self.site.rows * self.site.a[0])]

    def keep(self, a, kept):
        j = kept[0].view(len(a), self.site.backwards, -1)  # (n, B, d)

        def take(g):  # (B, n, d)
            j.copy_((g * a).transpose(0, 1))

        return take


@pytest.mark.parametrize("output", ["full", "pseudo", "trace"])
def test_a_new_layer_type_is_one_class(output, monkeypatch):
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), Gain(5), nn.Tanh(), nn.Linear(5, 3)).double()
    x = images(4, (1, 2, 3)).double()
    error_of(lambda: gram(net, x), "2 (Gain)", "BatchNorm2d")
    monkeypatch.setitem(tangents_module.LAYERS, Gain, GainRows)
    j = jacobian(net, x)
    assert_close(gram(net, x, output=output), theta_of(j, j, output))


# Identities


def test_identities_between_outputs():
    net, x, _ = example()
    blocks = gram(net, x).view(5, 3, 5, 3)
    assert_close(gram(net, x, output="pseudo"), blocks.sum((1, 3)) / 3)
    assert_close(gram(net, x, output="first"), blocks[:, 0, :, 0])
    assert_close(gram(net, x, output=2), blocks[:, 2, :, 2])
    assert_close(gram(net, x, output="trace"), blocks.diagonal(dim1=1, dim2=3).sum(2))


@pytest.mark.parametrize("output", ["full", "pseudo", "trace"])
@pytest.mark.parametrize("layers", [None, ["head"]])
def test_symmetric_to_the_bit_and_positive_semidefinite(output, layers):
    """Of some points twice, so that the least eigenvalue is 0."""
    net, x, _ = example()
    x = torch.cat([x, x[:2]])
    theta = gram(net, x, output=output, layers=layers, budget=2 * least_budget(net, x, output))
    assert torch.equal(theta, theta.T)
    values = torch.linalg.eigvalsh(theta)
    assert abs(values[0]) < 1e-12 * values[-1]


def test_transposed_when_the_sides_swap():
    net, x, _ = example()
    assert_close(gram(net, x[:2], x[2:]), gram(net, x[2:], x[:2]).T)
    assert_close(gram(net, x[:2], x[2:]), gram(net, x)[:6, 6:])


@pytest.mark.parametrize("spec", ["fcn", "convnet+depth=2", "wrn"])
def test_readout_alone_is_the_kernel_of_the_features(spec):
    net, x = shaken(small(spec)), images(4, (1, 8, 8)).double()
    phi = net.features(x).detach()
    inner = phi @ phi.T + 1
    assert_close(gram(net, x, layers=["head"]), torch.kron(inner, torch.eye(3).double()))
    assert_close(gram(net, x, layers=["head"], output="pseudo"), inner)
    assert_close(gram(net, x, layers=["head"], output="trace"), 3 * inner)
    assert any(isinstance(layer, Readout) for layer in Tangents(net, x, None, "full", None).layers)


def test_head_that_is_not_the_output_is_no_readout():
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh()).double()
    x = torch.randn(3, 4, dtype=torch.double)
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))


def test_layers_add_up():
    net, x, j = example()
    parts = [["conv", "bn"], ["stages.0"], ["stages.1", "stages.2"], ["stages.3", "head"]]
    assert_close(sum(gram(net, x, layers=part) for part in parts), theta_of(j, j))
    some = jacobian(net, x, ["stages.1", "head"])
    assert_close(gram(net, x, layers=["stages.1", "head"]), theta_of(some, some))


@pytest.mark.parametrize("kind", ["weight", "bias"])
@every_way
def test_frozen_parameters_are_left_out(way, kind):
    net, x = shaken(small("wrn")), images(3, (1, 8, 8)).double()
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(not name.endswith(kind))
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))
    net.requires_grad_(False)
    net.stages[0][0].conv2.requires_grad_(True)
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))


def test_frozen_activations_between_dense_layers():
    net, x = shaken(small("fcn+activation=prelu")), images(3, (1, 8, 8)).double()
    for module in net.hidden[1::2]:
        module.requires_grad_(False)
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))


def test_leaves_the_net_as_it_was():
    net, x, _ = example()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            gram(net, x, output="pseudo")
    with pytest.raises(RuntimeError):
        gram(net, x[:, :, :, :0])
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert not any(module._forward_hooks or "forward" in vars(module) for module in net.modules())


class Aside(nn.Module):
    """A net one layer of which has no effect."""

    def __init__(self, used, aside, head):
        super().__init__()
        self.used, self.aside, self.head = used, aside, head

    def forward(self, x):
        z = self.used(x).relu()
        self.aside(z)
        return self.head(z.flatten(1))


@pytest.mark.parametrize("n", [2, 3, 5])  # fewer points than outputs, as many, more
@pytest.mark.parametrize("kind", ["convolution", "linear"])
def test_a_layer_without_effect_adds_nothing(kind, n):
    if kind == "linear":
        net, x = Aside(nn.Linear(6, 4), nn.Linear(4, 5), nn.Linear(4, 3)), torch.randn(n, 6).double()
    else:
        net, x = Aside(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 4, 3), nn.Linear(72, 3)), images(n, (1, 8, 8)).double()
    net.double()
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))
    assert gram(net, x, layers=["aside"]).count_nonzero() == 0
    net.requires_grad_(False).aside.requires_grad_(True)  # no output depends on any parameter
    assert gram(net, x).count_nonzero() == 0


def test_points_that_require_gradients_are_taken_as_they_are():
    net, x, j = example()
    theta = gram(net, x.clone().requires_grad_())
    assert_close(theta, theta_of(j, j))
    assert not theta.requires_grad


# Choices and costs


def test_choice_of_contraction_follows_size():
    """Thesis ResNet18, O = 10, N = 1000: rows in large maps, ghosts in the 4 x 4 maps, rows for one output.

    The tail keeps five times as much as a ghost: a sixth of all that is kept at WF 1, more than a quarter at WF 2.
    """
    x = images(1, (3, 32, 32)).expand(1000, 3, 32, 32)

    def ways(width, output):
        net = build("resnet18", width).eval()
        found = {layer.site.name: type(layer) for layer in Tangents(net, x, None, output, None).layers}
        return [found[f"stages.{k}.1.conv{i}"] for k in range(4) for i in (1, 2)][1:]

    assert ways(1, "full") == [ConvRows] * 3 + [ConvFactors] * 2 + [ConvGhost, ConvTail]
    assert ways(2, "full")[-2:] == [ConvGhost, ConvGhost]
    assert ConvGhost not in ways(1, "pseudo")


def test_flops_count_the_matrix_products():
    net, x = build("fcn+depth=1", 64, (1, 8, 8), 10), images(20, (1, 8, 8))
    passes = 20 * 2 * (64 * 64 + 64 * 10 * 11)  # forward; backward through the head only
    pairs = 20 * 21 // 2
    assert flops(net, x) == passes + pairs * 2 * (10 * 10 * 64 + 64) + pairs * 2 * 64


@every("way, output", EVERY_WAY, ["full", "pseudo", "trace"], daily=3, indirect=["way"])
def test_flops_are_those_that_torch_counts(way, output):
    """Of two sets: of a symmetric Theta, blocks on the diagonal are computed whole."""
    net, x = small("wrn-16", (2, 8, 8), 3).float().eval(), images(7, (2, 8, 8))
    with FlopCounterMode(display=False) as counter:
        gram(net, x[:3], x[3:], output=output)
    with FlopCounterMode(display=False) as probe:
        net(x[:2])
    more = counter.get_total_flops() - probe.get_total_flops() - flops(net, x[:3], x[3:], output=output)
    tail = 0 if way else 2 * 3 * 3 * net.head.in_features * 2  # w = v V, and its products
    assert 0 <= more <= 2 * 3**3 + tail  # products of backward vectors


# Mistakes


class Twice(nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.shared, self.head, self.calls = nn.Linear(4, 4), nn.Linear(4, 2), calls

    def forward(self, x):
        for _ in range(self.calls):
            x = self.shared(x)
        return self.head(x)


class Spoilt(nn.Module):
    """The gradient of tanh is 1 - its result^2, which is gone."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        h += 1
        return self.head(h)


class Kept(nn.Module):
    """Changes what a hook has kept of a layer, also if that is a copy."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
        self.first.register_forward_hook(lambda _module, inputs, _z: setattr(self, "kept", inputs[0]))

    def forward(self, x):
        z = self.first(x)
        self.kept += 1
        return self.head(z)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.ones(4)), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.scale * x)


class Cut(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(checkpoint(lambda x: self.first(x).tanh(), x.requires_grad_(), use_reentrant=True))


def tied():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 2))
    net[2].weight = net[0].weight
    return net


def poisoned(kind):
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    net[1].weight.data[0, 1] = kind
    return net


def to_outputs(*layers):
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(2))


FLAT, MAP = (3, 4), (3, 2, 6, 6)
MISTAKES = {
    "layer": (nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2)), FLAT, ["1 (LayerNorm)", "BatchNorm2d"]),
    "own parameter": (Own(), FLAT, ["Own"]),
    "groups": (to_outputs(nn.Conv2d(2, 4, 3, groups=2)), MAP, ["0 (Conv2d)", "groups 1"]),
    "dilation": (to_outputs(nn.Conv2d(2, 4, 3, dilation=2)), MAP, ["0 (Conv2d)", "dilation 1"]),
    "padding": (to_outputs(nn.Conv2d(2, 4, 3, padding_mode="circular", padding=1)), MAP, ["0 (Conv2d)"]),
    "sequence": (to_outputs(nn.Linear(6, 2)), MAP, ["0 (Linear)", "(N, d)"]),
    "training": (to_outputs(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4)), MAP, ["1: batch", "net.eval()"]),
    "no statistics": (
        to_outputs(nn.BatchNorm2d(2, track_running_stats=False)).eval(),
        MAP,
        ["0: batch"],
    ),
    "dropout": (nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 2)), FLAT, ["1: Dropout", "net.eval()"]),
    "random slopes": (nn.Sequential(nn.Linear(4, 4), nn.RReLU(), nn.Linear(4, 2)), FLAT, ["1: RReLU"]),
    "in place": (Spoilt(), FLAT, ["changes in place what its gradients need", "inplace=False"]),
    "input kept and changed": (Kept(), FLAT, ["first: its input is changed in place", "a + b"]),
    "twice": (Twice(2), FLAT, ["shared: called 2 times"]),
    "never": (Twice(0), FLAT, ["shared: called 0 times"]),
    "without gradients": (Cut(), FLAT, ["first: runs without gradients"]),
    "tied": (tied(), FLAT, ["2: shares a parameter with 0"]),
    "nan": (poisoned(float("nan")), FLAT, ["1.weight", "not finite"]),
    "inf": (poisoned(float("-inf")), FLAT, ["1.weight", "not finite"]),
    "frozen": (nn.Linear(4, 2).requires_grad_(False), FLAT, ["no trainable"]),
    "shape": (nn.Sequential(nn.Conv2d(2, 4, 3)), MAP, ["(N, O)"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_name_the_module(mistake):
    net, shape, words = MISTAKES[mistake]
    training = {module: module.training for module in net.modules()}
    x = torch.ones(shape)
    net.eval()(x)  # sizes lazy layers
    for module, mode in training.items():
        module.training = mode
    error_of(lambda: gram(net, x), *words)


@pytest.mark.parametrize(("dtypes", "wrong"), [("bfloat16 bfloat16", 0), ("float32 float64", 1)])
def test_other_numbers_are_refused(dtypes, wrong):
    dtypes = dtypes.split()
    net = nn.Sequential(*(nn.Linear(4, 4, dtype=getattr(torch, dtype)) for dtype in dtypes))
    error_of(lambda: gram(net, torch.ones(3, 4)), f"{wrong}.weight", dtypes[wrong], "float32 or float64 throughout")


def test_wrong_options():
    net, x, _ = example()
    error_of(lambda: gram(net, x, layers=["heat"]), "'heat'", "head")
    error_of(lambda: gram(net, x, layers="head"), "a list")
    for output in ("all", 3, -1, True, 1.0):
        error_of(lambda output=output: gram(net, x, output=output), "allowed are full, pseudo", "0 to 2")
    error_of(lambda: gram(net, x * float("nan")), "inputs")
    error_of(lambda: gram(net, x, x[:0]), "at least one point")


# Random architectures


class Sum(nn.Module):
    """A residual sum around a stack."""

    def __init__(self, *body):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x):
        return x + self.body(x)


@st.composite
def architectures(draw):
    """A stack for inputs (2, 6, 6): convolutions, norms, activations, pooling and sums, then dense layers."""
    channels, side, stack = 2, 6, []
    activation = st.sampled_from([nn.Tanh, nn.GELU, nn.PReLU, nn.Softplus])
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["conv", "norm", "pool", "sum"]))
        if kind == "conv":
            k, stride, wide = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 5))
            pad, bias = draw(st.integers(0, 1)), draw(st.booleans())
            if side + 2 * pad >= k:
                norm = [nn.BatchNorm2d(wide)] * draw(st.booleans())
                stack += [nn.Conv2d(channels, wide, k, stride, pad, bias=bias), *norm, draw(activation)()]
                channels, side = wide, (side + 2 * pad - k) // stride + 1
        elif kind == "norm":
            stack.append(nn.BatchNorm2d(channels))
        elif kind == "pool" and side > 1:
            stack.append(draw(st.sampled_from([nn.AvgPool2d, nn.MaxPool2d]))(2))
            side //= 2
        elif kind == "sum":
            body = nn.Conv2d(channels, channels, 3, padding=1)
            stack.append(Sum(nn.BatchNorm2d(channels), draw(activation)(), body))
    features = draw(st.sampled_from([nn.Flatten, Mean]))
    stack.append(features())
    size = channels * (1 if features is Mean else side * side)
    for _ in range(draw(st.integers(0, 2))):
        wide = draw(st.integers(1, 6))
        stack += [nn.Linear(size, wide, bias=draw(st.booleans())), draw(activation)()]
        size = wide
    return nn.Sequential(*stack, nn.Linear(size, draw(st.integers(1, 4)), bias=draw(st.booleans())))


ANY = {
    "net": architectures(),
    "way": st.sampled_from(EVERY_WAY),
    "output": st.sampled_from(["full", "pseudo", "trace", "first"]),
    "n": st.tuples(st.integers(1, 4), st.integers(0, 3)),
    "seed": st.integers(0, 99),
}


def assert_by_definition(net, way, output, n, seed):
    torch.manual_seed(seed)
    for parameter in net.parameters():
        parameter.data = torch.randn_like(parameter) / max(1, parameter[0].numel()) ** 0.5
    net = shaken(net)
    x = torch.randn(sum(n), 2, 6, 6, dtype=torch.double)
    j = jacobian(net, x)
    x1, x2 = (x[: n[0]], x[n[0] :]) if n[1] else (x, None)
    j1, j2 = (j[: n[0]], j[n[0] :]) if n[1] else (j, j)
    with pytest.MonkeyPatch.context() as patch:
        if way is not None:
            patch.setattr(convolution_module, "cheapest_convolution", lambda site: WAYS[way])
            patch.setattr(tangents_module, "in_tail", lambda zs, phi, f: [False] * len(zs))
        assert_close(gram(net, x1, x2, output=output), theta_of(j1, j2, output))


@given(**ANY)
@settings(max_examples=30)
def test_random_architectures(**any_):
    assert_by_definition(**any_)


@pytest.mark.slow
@given(**ANY)
@settings(max_examples=300)
def test_many_random_architectures(**any_):
    assert_by_definition(**any_)


def test_ways_agree_pairwise_on_a_wide_layer():
    net = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.Tanh(), nn.Flatten(), nn.Linear(64, 3)).double()
    x, found = images(9, (8, 4, 4)).double(), []
    for forced in WAYS.values():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(convolution_module, "cheapest_convolution", lambda site, forced=forced: forced)
            found.append(gram(net, x))
    for one, other in combinations(found, 2):
        assert_close(one, other, 1e-13)
