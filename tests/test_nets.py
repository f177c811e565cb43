"""The contract of `bench.nets` on every registered net, and each paper net against figures and wiring computed here."""

import ast
import inspect
import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from speeds import every, some
from torch import nn

from bench import nets
from bench.core import registry
from bench.core.errors import UserError
from bench.nets import _parts

NETS = sorted(registry.components("nets"))
PLAIN = ["convnet", "fcn"]  # whose activation and initialisation studies vary; those of the others are fixed
SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32)]


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Layers this small only make threads wait for each other, twice as long on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _variations(name):
    """The net as it is, and with each of its options changed alone."""
    yield name
    for option, offered in registry.components("nets")[name].constants.get("OPTIONS", {}).items():
        for value in [offered + 1] if isinstance(offered, int) else offered[1:]:
            yield f"{name}+{option}={value}"


SPECS = [spec for name in NETS for spec in _variations(name)]


def build(spec, width, shape=(3, 32, 32), classes=10, seed=0):
    return nets.build(spec, shape, classes, width, torch.Generator().manual_seed(seed))


def small(spec, shape=(1, 8, 8), classes=3, seed=0):
    """The narrowest net of a spec, whatever its rule for widths, with 8 features: fewer ReLUs may all be off."""
    for width in range(1, 65):
        try:
            net = build(spec, width, shape, classes, seed)
        except UserError:
            continue
        if net.head.in_features >= 8:
            return net
    raise AssertionError(f"{spec} has no net of 8 features up to width 64")


def images(n, shape, seed=1):
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


def shaken(net):
    """In evaluation mode and float64, with batch norms that do something, as after training."""
    generator = torch.Generator().manual_seed(2)
    for bn in of_kind(net, nn.BatchNorm2d):
        for tensor, centre in ((bn.weight, 1.0), (bn.bias, 0.0), (bn.running_mean, 0.0), (bn.running_var, 1.0)):
            tensor.data = centre + 0.4 * (torch.rand(tensor.shape, generator=generator) - 0.5)
    return net.double().eval()


def of_kind(net, kind):
    return [module for module in net.modules() if isinstance(module, kind)]


def count(net):
    return sum(parameter.numel() for parameter in net.parameters())


# The contract, on every net found by the registry


@every("name, shape, classes", NETS, SHAPES, [1, 3, 10], daily=3, always=[(name, (1, 8, 8), 3) for name in NETS])
def test_output_is_the_head_of_the_features(name, shape, classes):
    net, x = shaken(small(name, shape, classes)), images(2, shape).double()
    features = net.features(x)
    assert type(net.head) is nn.Linear
    assert features.shape == (2, net.head.in_features)
    assert features.count_nonzero() > 0
    expected = features @ net.head.weight.T + net.head.bias
    assert expected.shape == (2, classes)
    torch.testing.assert_close(net(x), expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", NETS)
def test_states_what_its_width_means_and_what_it_is(name):
    component = registry.components("nets")[name]
    assert len(component.constants["WIDTH"]) > 10
    assert len(component.summary) > 20


@some("spec", SPECS, daily=2, always=NETS)
def test_parameters_sit_in_layers_that_hooks_know_and_are_called_once(spec):
    net, calls = small(spec).eval(), {}
    owners = {name: m for name, m in net.named_modules() if list(m.parameters(recurse=False))}
    kinds = (nn.Linear, nn.Conv2d, nn.BatchNorm2d) + ((nn.PReLU,) if "prelu" in spec else ())
    assert {type(module) for module in owners.values()} <= set(kinds)
    for name, module in owners.items():
        module.register_forward_hook(lambda *_, name=name: calls.update({name: calls.get(name, 0) + 1}))
    net(images(2, (1, 8, 8)))
    assert calls == dict.fromkeys(owners, 1)


@some("spec", SPECS, daily=2, always=NETS)
def test_nothing_is_computed_in_place(spec):
    net, outputs = small(spec).train(), []
    for module in net.modules():
        # torch counts in-place writes to a tensor in _version
        module.register_forward_hook(lambda _m, _i, output: outputs.append((output, output._version)))
    x = images(2, (1, 8, 8))
    net(x)
    assert len(outputs) > 3
    assert x._version == 0
    assert [output._version for output, _ in outputs] == [version for _, version in outputs]


@some("spec", SPECS, daily=2, always=NETS)
def test_training_reaches_every_parameter_and_draws_nothing(spec):
    net, before = small(spec).train(), torch.get_rng_state()
    net(images(4, (1, 8, 8))).square().sum().backward()
    assert torch.equal(torch.get_rng_state(), before)
    assert [name for name, parameter in net.named_parameters() if parameter.grad is None] == []


@some("spec", SPECS, daily=2, always=NETS)
def test_in_evaluation_mode_a_sample_ignores_its_batch(spec):
    net, x = shaken(small(spec)), images(4, (1, 8, 8)).double()
    alone = torch.cat([net(sample[None]) for sample in x])
    torch.testing.assert_close(net(x), alone, rtol=1e-10, atol=1e-12)
    assert not torch.allclose(alone[0], alone[1], rtol=1e-6, atol=0)  # else the line above says nothing


@some("spec", SPECS, daily=2, always=NETS)
def test_weights_are_a_function_of_the_generator_alone(spec):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        before = torch.get_rng_state()
        one = small(spec, seed=5)
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(12)
        same, other = small(spec, seed=5), small(spec, seed=6)
    weights = [name for name, value in one.named_parameters() if value.dim() > 1]
    one, same, other = one.state_dict(), same.state_dict(), other.state_dict()
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not any(torch.equal(one[name], other[name]) for name in weights)


def test_the_generator_is_read_but_not_advanced():
    generator = torch.Generator().manual_seed(3)
    torch.rand(5, generator=generator)
    before = generator.get_state()
    net = nets.build("fcn", (1, 8, 8), 3, 4, generator)
    assert torch.equal(generator.get_state(), before)
    assert torch.equal(net.head.weight, build("fcn", 4, (1, 8, 8), 3, seed=3).head.weight)


def test_no_net_is_tied_to_the_code_of_another():
    modules = {component.module for component in registry.components("nets").values()}
    for file in Path(inspect.getfile(nets)).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                named = {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                named = {alias.name for alias in node.names}
            else:
                continue
            assert not named & modules, f"{file.name} imports a net by name"


# Widths and sizes


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("name", ["fcn", "convnet", "resnet18", "wrn-16", "wrn-28"])
def test_any_positive_width(name, width):
    net = build(name, width, (1, 8, 8))
    assert net(images(2, (1, 8, 8))).shape == (2, 10)
    assert net.head.in_features == width * build(name, 1, (1, 8, 8)).head.in_features


@pytest.mark.parametrize(("spec", "width"), [("wrn", 6), ("wrn+layers=2", 12), ("wrn+layers=3", 24), ("wrn", 2)])
def test_wrn_takes_every_multiple(spec, width):
    assert build(spec, width, (1, 8, 8)).head.in_features == width


def conv(c_in, c_out, k, bias):
    return c_in * c_out * k * k + bias * c_out


def bn(channels):
    return 2 * channels


def preactivation(c_in, c_out, bias, shortcut):
    body = bn(c_in) + conv(c_in, c_out, 3, bias) + bn(c_out) + conv(c_out, c_out, 3, bias)
    return body + shortcut * conv(c_in, c_out, 1, bias)


def test_resnet18_is_the_classical_one_at_wf_4():
    blocks = 0
    for c_in, c_out in ((64, 64), (64, 128), (128, 256), (256, 512)):
        shortcut = 0 if c_in == c_out else conv(c_in, c_out, 1, 0) + bn(c_out)
        blocks += conv(c_in, c_out, 3, 0) + 3 * conv(c_out, c_out, 3, 0) + 4 * bn(c_out) + shortcut
    expected = conv(3, 64, 3, 0) + bn(64) + blocks + 512 * 10 + 10
    assert expected == 11_173_962  # the figure known for CIFAR ResNet18
    assert count(build("resnet18", 4)) == expected


def test_wrn_28_2_has_1_47_million_parameters():
    expected = conv(3, 16, 3, 0) + bn(128) + 128 * 10 + 10
    for c_in, c_out in ((16, 32), (32, 64), (64, 128)):
        expected += preactivation(c_in, c_out, 0, 1) + 3 * preactivation(c_out, c_out, 0, 0)
    assert expected == 1_467_610  # the "1.47M" that FixMatch code reports
    assert count(build("wrn-28", 2)) == expected
    biases = 16 + sum(9 * c for c in (32, 64, 128))  # stem; eight convolutions and a shortcut per layer
    assert count(build("wrn-28+variant=google", 2)) == expected + biases


@pytest.mark.parametrize(("layers", "widths"), [(1, (320, 640)), (2, (160, 320, 640))])
def test_thesis_wrn_of_maximum_width_640(layers, widths):
    net = build(f"wrn+layers={layers}", 640)
    expected = conv(3, widths[0], 3, 1) + bn(640) + 640 * 10 + 10
    for c_in, c_out in pairwise(widths):
        expected += preactivation(c_in, c_out, 1, 1)
    assert expected == {1: 5_754_890, 2: 7_185_930}[layers]
    assert count(net) == expected
    assert max(layer.out_channels for layer in of_kind(net, nn.Conv2d)) == 640


def test_wrn_16_at_wf_16_has_groups_of_256_and_512():
    net = build("wrn-16", 16)
    assert [{c.out_channels for c in of_kind(stage, nn.Conv2d)} for stage in net.stages] == [{256}, {512}]
    expected = conv(3, 256, 3, 1) + bn(512) + 512 * 10 + 10
    expected += 2 * preactivation(256, 256, 1, 0) + preactivation(256, 512, 1, 1) + preactivation(512, 512, 1, 0)
    assert count(net) == expected == 10_770_442


def test_fcn_and_convnet_counts():
    assert count(build("fcn", 64)) == (3072 + 1) * 64 + 2 * (64 + 1) * 64 + (64 + 1) * 10
    assert count(build("fcn+depth=1", 64)) == (3072 + 1) * 64 + (64 + 1) * 10
    assert count(build("convnet", 2)) == conv(3, 32, 3, 1) + 7 * conv(32, 32, 3, 1) + 33 * 10
    assert count(build("convnet+depth=2", 2)) == conv(3, 32, 3, 1) + conv(32, 32, 3, 1) + 33 * 10


@pytest.mark.parametrize(
    ("spec", "width", "maps"),
    [
        ("resnet18", 4, [(64, 32), (128, 16), (256, 8), (512, 4)]),
        ("wrn", 640, [(640, 32)]),
        ("wrn+layers=2", 640, [(320, 32), (640, 16)]),
        ("wrn+layers=3", 640, [(160, 32), (320, 16), (640, 8)]),
        ("wrn-16", 16, [(256, 32), (512, 16)]),
        ("wrn-28", 2, [(32, 32), (64, 16), (128, 8)]),
    ],
)
def test_feature_maps_of_the_stages(spec, width, maps):
    net, found = build(spec, width).to("meta"), []  # shapes only, nothing is computed
    for stage in net.stages:
        stage.register_forward_hook(lambda _m, _i, output: found.append(tuple(output.shape)))
    net(torch.empty(2, 3, 32, 32, device="meta"))
    assert found == [(2, channels, side, side) for channels, side in maps]


# Wiring, against forward passes written from the papers with the net's own weights


def normalised(x, bn):
    mean, var, scale, offset = (v[:, None, None] for v in (bn.running_mean, bn.running_var, bn.weight, bn.bias))
    return (x - mean) / (var + bn.eps).sqrt() * scale + offset


def reference_resnet18(net, x):
    convs, bns = iter(of_kind(net, nn.Conv2d)), iter(of_kind(net, nn.BatchNorm2d))

    def conv_bn(x, stride=1, padding=1):
        return normalised(F.conv2d(x, next(convs).weight, stride=stride, padding=padding), next(bns))

    x = conv_bn(x).relu()
    for stride in (1, 1, 2, 1, 2, 1, 2, 1):
        h = conv_bn(conv_bn(x, stride).relu())
        x = (h + (conv_bn(x, stride, padding=0) if stride == 2 else x)).relu()
    return F.linear(x.mean((2, 3)), net.head.weight, net.head.bias)


def reference_wrn(net, x, units, act, early, shared, identity):
    """`units`: (stride, whether the shape changes) of each unit in turn."""
    convs, bns = iter(of_kind(net, nn.Conv2d)), iter(of_kind(net, nn.BatchNorm2d))

    def convolved(x, stride=1, padding=1):
        layer = next(convs)
        return F.conv2d(x, layer.weight, layer.bias, stride, padding)

    x = convolved(x)
    for number, (stride, changes) in enumerate(units):
        a = act(normalised(x, next(bns)))
        h = convolved(a, stride if early else 1)
        h = convolved(act(normalised(h, next(bns))), 1 if early else stride)
        raw = a if shared and number == 0 else x
        if changes:
            h = h + convolved(raw, stride, padding=0)
        elif identity:
            h = h + raw
        x = h
    x = act(normalised(x, next(bns))).mean((2, 3))
    return F.linear(x, net.head.weight, net.head.bias)


def test_resnet18_wiring():
    net, x = shaken(build("resnet18", 1)), images(2, (3, 32, 32)).double()
    torch.testing.assert_close(net(x), reference_resnet18(net, x), rtol=1e-9, atol=1e-12)


KEEP = (1, False)


@pytest.mark.parametrize(
    ("spec", "width", "units", "style"),
    [
        ("wrn+blocks=2", 8, [(1, True), KEEP], (torch.relu, False, False, True)),
        ("wrn+layers=2+blocks=2", 16, [(1, True), KEEP, (2, True), KEEP], (torch.relu, False, False, True)),
        ("wrn+blocks=3+shortcut=released", 8, [(1, True), KEEP, KEEP], (torch.relu, False, False, False)),
        ("wrn-16", 1, [KEEP, KEEP, (2, True), KEEP], (torch.relu, False, False, True)),
        (
            "wrn-28",
            2,
            [(1, True)] + [KEEP] * 3 + ([(2, True)] + [KEEP] * 3) * 2,
            (lambda x: F.leaky_relu(x, 0.1), True, True, True),
        ),
    ],
)
def test_wrn_wiring(spec, width, units, style):
    net, x = shaken(build(spec, width)), images(2, (3, 32, 32)).double()
    act, early, shared, identity = style
    expected = reference_wrn(net, x, units, act, early, shared, identity)
    torch.testing.assert_close(net(x), expected, rtol=1e-9, atol=1e-12)


# Options do what they say


def test_released_shortcut_matters_only_from_the_second_unit_of_a_layer():
    x = images(2, (1, 8, 8)).double()

    def output(spec):
        return shaken(build(spec, 8, (1, 8, 8)))(x)

    for layers in (1, 2, 3):
        assert torch.equal(output(f"wrn+layers={layers}"), output(f"wrn+layers={layers}+shortcut=released"))
    ours, released = output("wrn+blocks=2"), output("wrn+blocks=2+shortcut=released")
    assert not torch.allclose(ours, released, rtol=1e-3)


def test_activations_by_value():
    at = {name: [make()(torch.tensor(float(z))).item() for z in (-1, 1)] for name, make in _parts.ACTIVATIONS.items()}
    phi = 0.5 * (1 + math.erf(1 / math.sqrt(2)))
    assert at == {
        "relu": [0, 1],
        "leaky-relu": pytest.approx([-0.01, 1]),
        "gelu": pytest.approx([phi - 1, phi], rel=1e-5),
        "tanh": pytest.approx([-math.tanh(1), math.tanh(1)]),
        "erf": pytest.approx([-math.erf(1), math.erf(1)]),
        "prelu": pytest.approx([-0.25, 1]),
    }
    assert {layer.negative_slope for layer in of_kind(build("wrn-28", 1), nn.LeakyReLU)} == {0.1}
    assert {layer.negative_slope for layer in of_kind(build("fcn+activation=leaky-relu", 2), nn.LeakyReLU)} == {0.01}


@pytest.mark.parametrize("name", NETS)
def test_plain_nets_offer_every_activation_and_law_and_the_others_none(name):
    options = registry.components("nets")[name].constants.get("OPTIONS", {})
    assert set(options.get("activation", ())) == (set(_parts.ACTIVATIONS) if name in PLAIN else set())
    assert set(options.get("init", ())) == (set(_parts.LAWS) if name in PLAIN else set())


@pytest.mark.parametrize("name", ["resnet18", "wrn", "wrn-16"])
def test_residual_nets_have_rectifiers_alone(name):
    kinds = {type(module) for module in small(name).modules() if not list(module.children())}
    assert kinds <= {nn.Conv2d, nn.Linear, nn.BatchNorm2d, nn.ReLU, nn.Identity}


@pytest.mark.parametrize("name", PLAIN)
def test_activation_changes_the_function_and_nothing_else(name):
    x = images(2, (1, 8, 8)).double()
    choices = registry.components("nets")[name].constants["OPTIONS"]["activation"]
    built = {choice: shaken(small(f"{name}+activation={choice}")) for choice in choices}
    outputs = [net(x) for net in built.values()]
    assert not any(torch.equal(a, b) for i, a in enumerate(outputs) for b in outputs[:i])
    assert len({count(net) for choice, net in built.items() if choice != "prelu"}) == 1
    slopes = len(of_kind(built["prelu"], nn.PReLU))
    assert slopes > 1
    assert count(built["prelu"]) == count(built["relu"]) + slopes


# Largest |w| in standard deviations: sqrt 3 if uniform, 2 / 0.8796 if cut at two, above 4 if normal.
LAWS = {"torch": (1 / 3, 1.70, 1.74), "he": (2, 4, 7), "lecun": (1, 4, 7), "truncated": (2, 2.25, 2.29)}


DRAWN = [
    *((f"{name}+init={init}", width, init) for name, width in (("fcn", 512), ("convnet", 6)) for init in LAWS),
    *(("wrn-16", 4, "torch"), ("resnet18", 1, "torch"), ("wrn", 128, "torch")),
]


@pytest.mark.parametrize(("spec", "width", "init"), DRAWN)
def test_initialisers_have_the_stated_law(spec, width, init):
    net = build(spec, width)
    numerator, lowest, highest = LAWS[init]
    weight = max((m.weight for m in of_kind(net, nn.Conv2d | nn.Linear)), key=torch.Tensor.numel)
    fan_in = weight[0].numel()
    # The variance of m normal weights is known to sqrt(2 / m), 0.5% for the smallest layer here (82,944)
    assert weight.var().item() == pytest.approx(numerator / fan_in, rel=0.025)
    assert abs(weight.mean().item()) < 5 * math.sqrt(numerator / fan_in / weight.numel())
    assert lowest < (weight.abs().max() / weight.std()).item() < highest
    head = net.head.weight  # drawn by the same law: 160 weights at least, so a loose test
    assert head.var().item() == pytest.approx(numerator / head.shape[1], rel=0.35)
    biases = torch.cat([m.bias for m in of_kind(net, nn.Conv2d | nn.Linear) if m.bias is not None])
    assert biases.count_nonzero() == (len(biases) if init == "torch" else 0)


def test_wrn_28_draws_by_fan_out_and_glorot():
    net = build("wrn-28", 2, classes=1000)
    first = net.stages[2][0].conv1.weight  # (128, 64, 3, 3): fan-in 576, fan-out 1152
    assert first.var().item() == pytest.approx(2 / (9 * 128), rel=0.025)
    assert net.stages[2][0].shortcut.weight.var().item() == pytest.approx(2 / 128, rel=0.08)
    assert net.head.weight.var().item() == pytest.approx(2 / (128 + 1000), rel=0.02)
    assert not net.head.bias.any()


def test_wrn_28_variants():
    def facts(variant):
        net = build(f"wrn-28+variant={variant}", 1)
        norms = {(layer.momentum, layer.eps) for layer in of_kind(net, nn.BatchNorm2d)}
        return norms, {layer.bias is not None for layer in of_kind(net, nn.Conv2d)}

    assert facts("kekmodel") == ({(0.001, 1e-5)}, {False})
    assert facts("google") == ({(0.001, 1e-3)}, {True})
    assert facts("oliver") == ({(0.001, 1e-3)}, {False})
    assert facts("darp") == ({(0.1, 1e-5)}, {False})


def test_convnet_readouts():
    x = images(2, (1, 8, 8)).double()
    pooled, flat = (shaken(build(f"convnet+readout={how}", 1, (1, 8, 8))) for how in ("gap", "flatten"))
    assert flat.features(x).shape == (2, 16 * 8 * 8)  # SAME padding: the size survives eight layers
    flat.convs.load_state_dict(pooled.convs.state_dict())
    means = flat.features(x).reshape(2, 16, 64).mean(2)
    torch.testing.assert_close(pooled.features(x), means, rtol=1e-12, atol=1e-14)


def test_he_keeps_the_signal_of_the_convnet_where_the_torch_default_loses_it():
    def power(init):
        net = build(f"convnet+readout=flatten+init={init}", 2)
        return net.features(images(2, (3, 32, 32))).square().mean().item()

    assert power("he") > 0.05  # of an input power of 1; the zero padding costs some
    assert power("torch") < 0.01


# Mistakes


@pytest.mark.parametrize(
    ("spec", "width", "says"),
    [
        ("wrn", 7, "multiples of 2"),
        ("wrn+layers=2", 6, "multiples of 4"),
        ("wrn+layers=3", 12, "multiples of 8"),
        ("wrn+layers=4", 64, "allowed: 1, 2, 3"),
        ("fcn", 0, "whole number >= 1"),
        ("resnet18", -4, "whole number >= 1"),
        ("wnr", 8, "did you mean 'wrn'"),
        ("fcn+activation=rleu", 8, "did you mean 'relu'"),
        ("wrn-16+layers=1", 8, "unknown option of wrn-16 'layers'"),
        ("fcn+init=fan-out", 8, "unknown value of fcn+init"),
        ("resnet18+activation=gelu", 8, "unknown option of resnet18 'activation'"),
        ("fcn+depth=0", 8, "a whole number >= 1"),
    ],
)
def test_errors_say_what_is_allowed(spec, width, says):
    with pytest.raises(UserError) as caught:
        build(spec, width)
    assert says in str(caught.value)
