"""However the work is split, by budget, batch, block, tile or thread: the same kernel, in the memory planned."""

import gc
import json
import os
import platform
import subprocess
import sys
import weakref

import numpy as np
import pytest
import torch
from conftest import REPO
from definition import EVERY_WAY, WAYS, assert_close, error_of, example, jacobian, least_budget, smooth, theta_of
from hypothesis import given
from hypothesis import strategies as st
from speeds import every
from test_nets import build, images, shaken, small
from torch import nn

from bench.core import memory
from bench.kernels import convolution as convolution_module
from bench.kernels import layers as layers_module
from bench.kernels import tangents as tangents_module
from bench.kernels.convolution import ConvFactors, ConvGhost
from bench.kernels.empirical import default_budget, gram
from bench.kernels.layers import Linear
from bench.kernels.tangents import Tangents


@every(
    "way, output",
    EVERY_WAY,
    ["full", "pseudo"],
    daily=0,
    always=[("ghost", "full"), (None, "pseudo")],
    indirect=["way"],
)
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


@pytest.mark.parametrize(("spec", "width", "whole"), [("fcn", 32, [3]), ("convnet", 1, [2, 3])])
def test_few_points_pass_a_fully_connected_net_once(spec, width, whole, monkeypatch):
    """Where weights outnumber what a pass takes, the pass that shows the net's shapes is the one that is used."""
    net, x, passed = shaken(build(spec, width, (1, 8, 8), 3)), images(3, (1, 8, 8)).double(), []
    j = jacobian(net, x)
    net.register_forward_hook(lambda _module, inputs, _f: passed.append(len(inputs[0])))
    assert_close(gram(net, x), theta_of(j, j))
    assert passed == whole
    passed.clear()
    assert_close(gram(net, x, budget=least_budget(net, x, "full")), theta_of(j, j))
    assert set(passed[-3:]) == {1}  # point by point, so not that one
    passed.clear()
    assert_close(gram(net, x, x[:2]), theta_of(j, j[:2]))
    assert passed == [2, 3, 2]
    passed.clear()
    monkeypatch.setattr(tangents_module, "PASS_BYTES", 64)  # more outputs than one pass is to have
    monkeypatch.setattr(tangents_module, "PASS_POINTS", 1)
    assert_close(gram(net, x), theta_of(j, j))
    assert passed == [2, 1, 1, 1]


def test_parameters_outside_of_layers_are_refused_before_all_points_pass():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.flat, self.scale = nn.Flatten(), nn.Parameter(torch.ones(64))

        def forward(self, x):
            passed.append(len(x))
            return self.flat(x) * self.scale

    passed = []
    error_of(lambda: gram(Scaled(), images(9, (1, 8, 8))), "Scaled", "do not know this layer")
    assert passed == [2]


def test_any_budget_gives_the_same_in_float32():
    net, x = smooth(shaken(small("wrn"))).float(), images(11, (1, 8, 8))
    whole, least = gram(net, x), least_budget(net, x, "full")
    for budget in (least, 2 * least, 5 * least):
        assert_close(gram(net, x, budget=budget), whole, 5e-6)


@pytest.mark.slow
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


@every("spec, output", ["resnet18", "fcn"], ["full", "pseudo", "trace"], daily=0, always=[("fcn", "full")])
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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, where a process' peak memory stands: run on Linux")
@pytest.mark.parametrize("sides", ["x", "x[::2], x[1::2]"])
@pytest.mark.parametrize(("net", "width", "points"), [("convnet+depth=4", 2, 128), ("resnet18", 1, 60)])
@pytest.mark.parametrize("budget", [2**26, 2**28])
def test_memory_stays_within_the_budget(budget, net, width, points, sides):
    """One less than what is kept of all points takes, one more."""
    script = f"""
import torch
from bench import nets
from bench.kernels.empirical import gram
from bench.kernels.tangents import Tangents
from bench.tools.perf.turns import memory

net = nets.build({net!r}, (3, 16, 16), 10, {width}, torch.Generator().manual_seed(0)).eval()
x = torch.randn({points}, 3, 16, 16)
gram(net, x[:2], budget={budget})
before = memory("VmRSS:")
theta = gram(net, {sides}, budget={budget})
print(memory("VmHWM:") - before - theta.nbytes)
tangents = Tangents(net, x, None, "full", None)
tangents.plan(2**30, len(x), True, False)
print(len(x) * tangents.kept)
"""
    threads = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}  # on a busy machine, no spinning for each other
    command = [sys.executable, "-c", script]
    found = subprocess.run(
        command, env=os.environ | threads, capture_output=True, text=True, check=True, timeout=300, cwd=REPO
    )
    taken, kept = map(int, found.stdout.split())
    assert taken < budget + 2**25  # and what products and the allocator take beside it
    assert 2**26 < kept < 2**28


def test_a_kernel_that_does_not_fit_says_so(monkeypatch):
    net, x, _ = example()
    monkeypatch.setattr(memory, "free_memory", lambda: 8 * 15 * 15 - 1)
    error_of(lambda: gram(net, x), "are free", "out=")
    monkeypatch.setattr(memory, "free_memory", lambda: 2**30)
    assert default_budget(torch.device("cpu"), 2**20) == (2**30 - 2**20) // 4
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**29, 2**31))
    assert default_budget(torch.device("cuda"), 2**20) == (2**29 - 2**20) // 4


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


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's allocator, others have rules of their own")
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
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120, cwd=REPO
    )
    before, after = map(int, found.stdout.split())
    assert after < before / 10


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


def test_progress_in_a_log(capsys):
    net, x, _ = example()
    gram(net, x, output="pseudo", progress=True, budget=2 * least_budget(net, x, "pseudo"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "  kernel: 100%"
    gram(net, x, output="pseudo")
    assert capsys.readouterr().err == ""
