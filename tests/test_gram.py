"""Empirical tangent kernels against Theta = J J^T with J from torch.func, and every way to split the work."""

import gc
import json
import platform
import subprocess
import sys
import weakref
from functools import cache
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_nets import NETS, SPECS, build, images, shaken, small
from torch import nn
from torch.func import functional_call, jacrev
from torch.utils.flop_counter import FlopCounterMode

from bench import machine
from bench.errors import UserError
from bench.kernels import convolution as convolution_module
from bench.kernels import layers as layers_module
from bench.kernels import tangents as tangents_module
from bench.kernels.convolution import ConvFactors, ConvGhost, ConvRows
from bench.kernels.gram import default_budget, flops, gram
from bench.kernels.layers import Linear, Readout, Rows
from bench.kernels.tail import ConvTail
from bench.kernels.tangents import Tangents

WAYS = {"rows": ConvRows, "factors": ConvFactors, "ghost": ConvGhost}


def jacobian(net, x, layers=None):
    """J (N, O, P) by definition: one point and one output at a time."""
    parameters = {
        name: value.detach()
        for name, value in net.named_parameters()
        if value.requires_grad and (layers is None or any(name.startswith(f"{layer}.") for layer in layers))
    }

    def outputs(parameters, point):
        return functional_call(net, parameters, (point[None],))[0]  # (O,)

    rows = []
    for point in x:
        j = jacrev(outputs, chunk_size=1)(parameters, point)  # {name: (O, *shape)}
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


@pytest.fixture
def way(request, monkeypatch):
    """Every convolution contracted in one given way, or in the cheapest (None)."""
    if request.param is not None:
        monkeypatch.setattr(convolution_module, "cheapest_convolution", lambda site: WAYS[request.param])
        monkeypatch.setattr(tangents_module, "in_tail", lambda zs, phi, f: [False] * len(zs))
    return request.param


every_way = pytest.mark.parametrize("way", [*WAYS, None], indirect=True)


@cache
def example():
    """A trained-looking ResNet18 and its J: strides, shortcuts, batch norms; (5, 3, P)."""
    net, x = shaken(small("resnet18")), images(5, (1, 8, 8)).double()
    return net, x, jacobian(net, x)


# Against the definition


@pytest.mark.parametrize("spec", SPECS)
def test_every_net_and_option_in_float64(spec):
    net, x = shaken(small(spec)), images(4, (1, 8, 8)).double()
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))
    assert_close(gram(net, x[:1], x[1:], output="pseudo"), theta_of(j[:1], j[1:], "pseudo"))


@pytest.mark.parametrize("classes", [1, 3, 10])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", NETS)
def test_every_net_at_two_widths_with_few_and_many_outputs(name, times, classes):
    width = {"fcn": 8, "wrn": 8}.get(name, 1) * times
    net, x = shaken(build(name, width, (2, 8, 8), classes)), images(5, (2, 8, 8)).double()
    j = jacobian(net, x)
    for output in ("full", "pseudo"):
        assert_close(gram(net, x, output=output), theta_of(j, j, output))
        assert_close(gram(net, x[:2], x[2:], output=output), theta_of(j[:2], j[2:], output))


@pytest.mark.parametrize("classes", [1, 3, 10])
@pytest.mark.parametrize("output", ["full", "pseudo", "first", "trace", 0])
@every_way
def test_every_output_in_every_way(way, output, classes):
    net, x = shaken(small("wrn+layers=2", (2, 7, 6), classes)), images(5, (2, 7, 6)).double()
    j = jacobian(net, x)
    assert_close(gram(net, x, output=output), theta_of(j, j, output))
    assert_close(gram(net, x[:2], x[2:], output=output), theta_of(j[:2], j[2:], output))


@pytest.mark.parametrize(
    ("spec", "width"),
    [("convnet+depth=3", 1), ("resnet18", 1), ("wrn", 32), ("wrn-16", 1), ("wrn-16", 2), ("wrn-28", 1), ("fcn", 33)],
)
@every_way
def test_float32_on_cifar_sizes(way, spec, width):
    """Against J of the same float32 forward passes: in float64 some ReLU would have the other sign."""
    net, x = shaken(build(spec, width, (3, 32, 32), 3)).float(), images(3, (3, 32, 32))
    j = jacobian(net, x)
    for output in ("full", "trace", "pseudo"):
        found = gram(net, x, output=output)
        assert found.dtype == torch.float32
        assert_close(found, theta_of(j, j, output), 5e-6)
        assert_close(gram(net, x[:1], x[1:], output=output), theta_of(j[:1], j[1:], output), 5e-6)


@pytest.mark.parametrize("kernel", [1, 2, 3, (3, 2), 5])
@pytest.mark.parametrize("stride", [1, 2, (1, 3)])
@pytest.mark.parametrize("padding", [0, 2, (0, 1)])
@every_way
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

        def take(b, g):
            j[:, b] = g * a

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
def test_symmetric_to_the_bit_and_positive_semidefinite(output):
    net, x, _ = example()
    theta = gram(net, x, output=output, budget=2 * least_budget(net, x, output))
    assert torch.equal(theta, theta.T)
    values = torch.linalg.eigvalsh(theta)
    assert values[0] > -1e-12 * values[-1]


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


# However the work is split


def least_budget(net, x, output):
    with pytest.raises(UserError) as caught:
        gram(net, x, output=output, budget=1)
    return int(str(caught.value).split("needs ")[1].split(" bytes")[0].replace(",", ""))


@pytest.mark.parametrize("output", ["full", "pseudo"])
@every_way
def test_any_budget_gives_the_same(way, output):
    net, x = shaken(small("wrn+layers=2")), images(11, (1, 8, 8)).double()
    whole, cross = gram(net, x, output=output), gram(net, x[:4], x[4:], output=output)
    tiles, least = set(), least_budget(net, x, output)
    for budget in (least, 2 * least, 5 * least):
        tangents = Tangents(net, x, None, output, None)
        tiles.add(tangents.plan(budget, 11, True, False))
        assert_close(gram(net, x, output=output, budget=budget), whole, 1e-13)
        assert_close(gram(net, x[:4], x[4:], output=output, budget=budget), cross, 1e-13)
    assert len(tiles) > 1


@pytest.mark.parametrize("size", [1, 3, 32])
def test_any_batch_and_any_block_give_the_same(size, monkeypatch):
    net, x, j = example()
    monkeypatch.setattr(tangents_module, "PASS_BYTES", 0)
    monkeypatch.setattr(tangents_module, "PASS_POINTS", size)
    monkeypatch.setattr(layers_module, "BLOCK", size)
    monkeypatch.setattr(layers_module, "SIDE", 7 * size)
    monkeypatch.setattr(layers_module, "SMALL", 3 * size)
    monkeypatch.setattr(layers_module, "LONGEST", 2000 * size)
    monkeypatch.setattr(layers_module, "PIECE", 5 * size)
    monkeypatch.setattr(layers_module, "FEW_COLUMNS", 8 * size)
    monkeypatch.setattr(layers_module, "STRIP", size)
    monkeypatch.setattr(ConvGhost, "BYTES", size * 1000)
    monkeypatch.setattr(ConvGhost, "ROWS", size)
    monkeypatch.setattr(ConvFactors, "COLUMNS", 8 * size)
    monkeypatch.setattr(ConvFactors, "BYTES", 0)
    monkeypatch.setattr(ConvFactors, "POINTS", size)
    monkeypatch.setattr(ConvFactors, "LANES", size)
    for forced in WAYS.values():
        monkeypatch.setattr(convolution_module, "cheapest_convolution", lambda site, forced=forced: forced)
        assert_close(gram(net, x), theta_of(j, j))


@pytest.mark.parametrize("spec", ["resnet18", "fcn"])
@pytest.mark.parametrize("output", ["full", "pseudo", "trace"])
def test_any_number_of_threads_gives_the_same(spec, output, monkeypatch):
    """Which share the columns of J, here in pieces of at least eight, and the rows of larger products."""
    monkeypatch.setattr(layers_module, "PIECE", 8)
    net, x = shaken(small(spec)), images(9, (1, 8, 8)).double()
    found, threads = [], torch.get_num_threads()
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            found.append(gram(net, x, output=output))
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert_close(other, found[0], 1e-14)


@pytest.mark.skipif(sys.platform != "linux", reason="reads a process' peak memory from /proc")
@pytest.mark.parametrize("budget", [2**26, 2**28])
def test_memory_stays_within_the_budget(budget):
    """One less than what is kept of all points takes, one more."""
    script = f"""
import torch
from bench import nets
from bench.kernels.gram import gram
from bench.kernels.tangents import Tangents
from bench.perf.turns import memory

net = nets.build("convnet+depth=4", (3, 16, 16), 10, 2, torch.Generator().manual_seed(0))
x = torch.randn(256, 3, 16, 16)
gram(net, x[:2], budget={budget})
before = memory("VmRSS:")
theta = gram(net, x, budget={budget})
print(memory("VmHWM:") - before - theta.nbytes)
tangents = Tangents(net, x, None, "full", None)
tangents.plan(2**30, 256, True, False)
print(256 * tangents.kept)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    taken, kept = map(int, found.stdout.split())
    assert taken < budget + 2**25  # and what products and the allocator take beside it
    assert 2**26 < kept < 2**28


def test_a_kernel_that_does_not_fit_says_so(monkeypatch):
    net, x, _ = example()
    monkeypatch.setattr(machine, "free_memory", lambda: 8 * 15 * 15 - 1)
    error_of(lambda: gram(net, x), "are free", "out=")
    monkeypatch.setattr(machine, "free_memory", lambda: 2**30)
    assert default_budget(torch.device("cpu"), 2**20) == (2**30 - 2**20) // 4


@given(st.integers(2, 60), st.integers(1, 9), st.integers(1, 9), st.integers(2, 9))
def test_a_symmetric_gram_matrix_is_whole_above_the_diagonal(n, block, sides, longest):
    """Whatever the sizes of blocks, and with rows left over when they are halved."""
    rows = torch.randn(n, 8, dtype=torch.double)
    before = torch.randn(n, n, dtype=torch.double)
    theta = before.clone()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"SMALL": 1, "BLOCK": block, "SIDE": sides * block, "LONGEST": longest}.items():
            patch.setattr(layers_module, name, value)
        layers_module.add_gram(theta, rows, rows, symmetric=True)
    assert_close(theta.triu(), (before + rows @ rows.T).triu(), 1e-13)


@given(st.integers(1, 40), st.integers(1, 40), st.booleans(), st.integers(1, 50), st.integers(1, 50))
def test_blocks_cover_every_entry_once(n1, n2, symmetric, side, least):
    n2 = n1 if symmetric else n2
    covered = np.zeros((n1, n2), int)
    for i, j in layers_module.blocks(n1, n2, symmetric, side, least):
        assert 0 < i.stop - i.start <= side
        assert 0 < j.stop - j.start <= side
        covered[i, j] += 1
    wanted = np.triu(np.ones((n1, n2), int)) if symmetric else np.ones((n1, n2), int)
    assert (covered[wanted == 1] == 1).all()
    if symmetric:  # below the diagonal only within blocks on it
        rows, columns = np.nonzero(covered)
        assert (rows - columns).max() < min(side, max(least, 1))


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


@pytest.mark.parametrize("output", ["full", "pseudo"])
def test_the_graph_is_gone_with_the_call(output):
    net, x, _ = example()
    seen = []
    hook = net.stages[1].register_forward_hook(lambda _module, _inputs, z: seen.append(weakref.ref(z)))
    gc.disable()  # no help: a cycle would keep all activations until some later collection
    try:
        gram(net, x, output=output)
        assert seen
        assert all(z() is None for z in seen)
    finally:
        gc.enable()
        hook.remove()


@pytest.fixture
def tiles(monkeypatch):
    """How many tiles are in memory, whenever another one was computed."""
    counts, alive, keep = [], [], Tangents.keep

    def counted(self, x, tick):
        kept = keep(self, x, tick)
        alive.append(weakref.ref(kept[0][0]))
        counts.append(sum(each() is not None for each in alive))
        return kept

    monkeypatch.setattr(Tangents, "keep", counted)
    return counts


def test_no_more_tiles_in_memory_than_planned(tiles):
    net, x, j = example()
    assert_close(gram(net, x, budget=least_budget(net, x, "full")), theta_of(j, j))  # tiles of one point
    assert max(tiles) == 2
    assert 5 < len(tiles) < 15  # 15 tiles of Theta: one side at least is there already
    tiles.clear()
    assert_close(gram(net, x, budget=3 * least_budget(net, x, "full")), theta_of(j, j))
    assert tiles in ([1], [1, 2], [1, 2, 3])


def test_continued_with_less_memory_no_more_tiles_than_needed(tiles, tmp_path):
    net, x, j = example()
    path, least = tmp_path / "theta.npy", least_budget(net, x, "full")
    gram(net, x, out=path, budget=10**9)
    assert max(tiles) > 2
    saved = json.loads((tmp_path / "theta.npy.done").read_text())
    (tmp_path / "theta.npy.done").write_text(json.dumps(saved | {"done": []}))
    tiles.clear()
    assert_close(gram(net, x, out=path, budget=least + 8 * 9 * 10), theta_of(j, j))
    assert max(tiles) == 2


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have rules of their own")
def test_memory_that_is_freed_is_there_for_the_next_kernel():
    """Pages touched for the first time, of blocks that come and go: none once kernels keep them, all of them before."""
    script = """
import resource, torch
from bench.kernels.pages import keep_pages

def touched():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [torch.ones(2**20) for _ in range(50)]  # 50 of 4 MiB, as activations are held until the backward pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

touched()
before = touched()
keep_pages()
touched()
print(before, touched())
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    before, after = map(int, found.stdout.split())
    assert after < before / 10


def test_points_that_require_gradients_are_taken_as_they_are():
    net, x, j = example()
    theta = gram(net, x.clone().requires_grad_())
    assert_close(theta, theta_of(j, j))
    assert not theta.requires_grad


@pytest.mark.parametrize("size", [1, 3, 20])
def test_any_block_of_a_linear_layer_gives_the_same(size, monkeypatch):
    monkeypatch.setattr(Linear, "LEAST", size)
    net, x = shaken(small("fcn")), images(5, (1, 8, 8)).double()
    j = jacobian(net, x)
    assert_close(gram(net, x), theta_of(j, j))


def test_too_small_a_budget_says_the_least():
    net, x, j = example()
    least = least_budget(net, x, "full")
    assert_close(gram(net, x, budget=least), theta_of(j, j))
    error_of(lambda: gram(net, x, budget=least - 1), f"needs {least:,} bytes")


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


@pytest.mark.parametrize("output", ["full", "pseudo", "trace"])
@every_way
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


def test_progress_in_a_log(capsys):
    net, x, _ = example()
    gram(net, x, output="pseudo", progress=True, budget=2 * least_budget(net, x, "pseudo"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "  kernel: 100%"
    gram(net, x, output="pseudo")
    assert capsys.readouterr().err == ""


# Mistakes


class Twice(nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.shared, self.head, self.calls = nn.Linear(4, 4), nn.Linear(4, 2), calls

    def forward(self, x):
        for _ in range(self.calls):
            x = self.shared(x)
        return self.head(x)


class Added(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        k = self.second(h)
        h += 1
        return self.head(h + k)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.ones(4)), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.scale * x)


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
    "in place": (nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)), FLAT, ["0: its output"]),
    "in place sum": (Added(), FLAT, ["second: its input"]),
    "twice": (Twice(2), FLAT, ["shared: called 2 times"]),
    "never": (Twice(0), FLAT, ["shared: called 0 times"]),
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


class Mean(nn.Module):
    """Over positions."""

    def forward(self, x):
        return x.mean((2, 3))


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


@given(
    net=architectures(),
    way=st.sampled_from([*WAYS, None]),
    output=st.sampled_from(["full", "pseudo", "trace", "first"]),
    n=st.tuples(st.integers(1, 4), st.integers(0, 3)),
    seed=st.integers(0, 99),
)
@settings(max_examples=100)
def test_random_architectures(net, way, output, n, seed):
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


def test_ways_agree_pairwise_on_a_wide_layer():
    net = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.Tanh(), nn.Flatten(), nn.Linear(64, 3)).double()
    x, found = images(9, (8, 4, 4)).double(), []
    for forced in WAYS.values():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(convolution_module, "cheapest_convolution", lambda site, forced=forced: forced)
            found.append(gram(net, x))
    for one, other in combinations(found, 2):
        assert_close(one, other, 1e-13)
