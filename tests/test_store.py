"""Kernels streamed to a file: the same, continued after a kill, and never mixed with another's."""

import copy
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from definition import assert_close, error_of, example, smooth, theta_of
from test_nets import images, shaken, small

from bench.kernels.empirical import gram
from bench.kernels.parts import share
from bench.kernels.store import Store
from bench.kernels.tangents import Tangents


def test_streamed_is_the_same_and_is_not_computed_twice(tmp_path, monkeypatch):
    net, x, j = example()
    path = tmp_path / "deep" / "theta.npy"
    streamed = gram(net, x, out=path)
    assert_close(streamed, theta_of(j, j))
    assert torch.equal(streamed, streamed.T)
    assert np.array_equal(np.load(path), streamed.numpy())
    streamed.zero_()  # a private copy
    monkeypatch.setattr(Tangents, "add", None)
    assert_close(gram(net, x, out=path), theta_of(j, j))
    assert len(json.loads((tmp_path / "deep" / "theta.npy.done").read_text())["done"]) >= 6


def test_streamed_between_two_sets(tmp_path):
    net, x, j = example()
    for output in ("full", "trace"):
        streamed = gram(net, x[:2], x[2:], output=output, out=tmp_path / f"{output}.npy")
        assert_close(streamed, theta_of(j[:2], j[2:], output))


def test_a_foreign_file_is_not_continued(tmp_path):
    net, x, _ = example()
    path = tmp_path / "theta.npy"
    gram(net, x, out=path, output="pseudo")
    frozen = copy.deepcopy(net)
    frozen.conv.requires_grad_(False)
    others = [
        lambda: gram(net, x, out=path),
        lambda: gram(net, x[:4], out=path, output="pseudo"),
        lambda: gram(net, x + 1e-9, out=path, output="pseudo"),
        lambda: gram(net, x, out=path, output="pseudo", layers=["head"]),
        lambda: gram(net, x, x, out=path, output="pseudo"),
        lambda: gram(copy.deepcopy(net).float(), x, out=path, output="pseudo"),
        lambda: gram(frozen, x, out=path, output="pseudo"),
        lambda: gram(shaken(small("resnet18", seed=1)), x, out=path, output="pseudo"),
        lambda: gram(smooth(shaken(small("resnet18"))), x, out=path, output="pseudo"),
    ]
    for other in others:
        error_of(other, str(path), "remove it")
    (tmp_path / "theta.npy.done").unlink()
    error_of(lambda: gram(net, x, out=path, output="pseudo"), "remove it")


def test_the_same_modules_with_another_flag_are_another_net(tmp_path):
    net, x = shaken(small("wrn-16")), images(3, (1, 8, 8)).double()
    gram(net, x, out=tmp_path / "theta.npy")
    unit = next(module for module in net.modules() if hasattr(module, "shared"))
    unit.shared = not unit.shared  # what its shortcut sees
    error_of(lambda: gram(net, x, out=tmp_path / "theta.npy"), "remove it")


def test_what_is_left_is_computed_with_progress_and_in_float32(tmp_path, monkeypatch, capsys):
    net, x = shaken(small("fcn")).float(), images(6, (1, 8, 8))
    path, done = tmp_path / "theta.npy", tmp_path / "theta.npy.done"
    whole = gram(net, x, out=path).clone()
    assert np.load(path).dtype == np.float32
    assert_close(whole, gram(net, x), 5e-6)
    saved = json.loads(done.read_text())
    done.write_text(json.dumps(saved | {"done": saved["done"][:-2]}))
    added, add = [], Tangents.add
    monkeypatch.setattr(Tangents, "add", lambda *a: (added.append(1), add(*a)))
    assert_close(gram(net, x, out=path, progress=True), whole, 5e-6)
    assert len(added) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "  kernel: 100%"


KILLED = """
import sys, time, torch
sys.path[:0] = [{tests!r}, {repo!r}]
torch.set_num_threads(1)
import definition
from bench.kernels import store
from bench.kernels.empirical import gram
saved = store.Store._save_list
def slow(self):
    saved(self)
    print(len(self.done), flush=True)
    time.sleep(60 if len(self.done) == 3 else 0)
store.Store._save_list = slow
net, x, _ = definition.example()
gram(net, x, out={path!r})
"""


@pytest.mark.slow
def test_killed_between_tiles_resumes(tmp_path, monkeypatch):
    net, x, j = example()
    path, tests = tmp_path / "theta.npy", os.path.dirname(__file__)
    code = KILLED.format(tests=tests, repo=os.path.dirname(tests), path=str(path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        while process.stdout.readline().strip() != "3":
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    before = path.stat().st_mtime_ns
    added, add = [], Tangents.add
    monkeypatch.setattr(Tangents, "add", lambda *a: (added.append(1), add(*a)))
    time.sleep(0.01)
    theta = gram(net, x, out=path, budget=10**9)  # the tiles of the first start, whatever the budget is now
    assert_close(theta, theta_of(j, j))
    assert path.stat().st_mtime_ns > before
    saved = json.loads((tmp_path / "theta.npy.done").read_text())
    assert len(added) == len(saved["done"]) - 3


PART = """
import sys, time, torch
sys.path[:0] = [{tests!r}, {repo!r}]
torch.set_num_threads(1)
from test_nets import images, shaken, small
from bench.kernels import store
from bench.kernels.empirical import gram
from bench.kernels.tangents import Tangents
path, k, of, cross, dies = sys.argv[1], *map(int, sys.argv[2:])
kept, add, added = store.Store.set_aside, Tangents.add, []
def slow(*a):
    kept(*a)
    print("kept", flush=True)
    time.sleep(60 * dies)
store.Store.set_aside = slow
Tangents.add = lambda *a: (added.append(1), add(*a))
net, x = shaken(small("resnet18")), images(11, (1, 8, 8)).double()
print("ready", flush=True)
sys.stdin.readline()
given = (x[:4], x[4:]) if cross else (x,)
found = gram(net, *given, out=path, budget=10**8, part=(k, of) if of else None)
assert (found is None) == (of > 0)
print(len(added), flush=True)
"""


@pytest.fixture
def programs():
    """Starts a program that computes a part, or with `of` = 0 the whole."""
    tests = os.path.dirname(__file__)
    code, started = PART.format(tests=tests, repo=os.path.dirname(tests)), []

    def start(path, k=0, of=0, cross=False, dies=False):
        command = [sys.executable, "-c", code, str(path), *(str(int(each)) for each in (k, of, cross, dies))]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def finish(*processes):
    """Let them go, all at once, and wait; how many tiles each computed."""
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        print("go", file=process.stdin, flush=True)
    return [int(process.communicate()[0].split()[-1]) for process in processes]


@pytest.mark.slow
@pytest.mark.parametrize("cross", [False, True])
def test_parts_at_once_one_of_them_killed_give_the_bytes_of_one_process(cross, tmp_path, programs):
    path, alone = tmp_path / "theta.npy", tmp_path / "alone.npy"
    dying, *others = (programs(path, k, 3, cross, dies=k == 0) for k in range(3))
    assert dying.stdout.readline() == "ready\n"
    print("go", file=dying.stdin, flush=True)
    first = finish(*others)
    assert dying.stdout.readline() == "kept\n"
    dying.send_signal(signal.SIGKILL)
    if not cross:
        first += finish(programs(path, 0, 3, cross))  # started again; else what it left falls to the whole call
    assert not path.exists()
    (tmp_path / "theta.npy.tiles-of-another").mkdir()  # not looked at
    last, total = finish(programs(path, 0, 0, cross)), finish(programs(alone, 0, 0, cross))
    assert 1 + sum(first + last) == total[0]  # none was computed twice
    assert (last[0] > 0) == cross
    assert path.read_bytes() == alone.read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir() if each.name.startswith("theta")) == [
        *("theta.npy", "theta.npy.done", "theta.npy.tiles-of-another")
    ]


def test_of_those_who_start_at_once_one_decides_the_tile(tmp_path):
    for attempt in range(20):
        with ThreadPoolExecutor(8) as pool:
            path = tmp_path / f"{attempt}.npy"
            found = list(pool.map(lambda tile, path=path: Store(path, "kernel", tile, 1, True).tile, range(1, 9)))
        assert len(set(found)) == 1
    assert not list(tmp_path.glob("*.part"))


def test_parts_of_another_kernel_or_size_are_not_mixed(tmp_path):
    net, x, j = example()
    path = tmp_path / "theta.npy"
    assert gram(net, x, out=path, part=(1, 3)) is None
    error_of(lambda: gram(net, x, out=path, output="pseudo", part=(0, 3)), "remove it", "theta.npy.done")
    error_of(lambda: gram(net, x, out=path, output="pseudo"), "remove it")
    gram(net, x, out=path, part=(0, 2))  # other parts: what is done is done
    assert_close(gram(net, x, out=path), theta_of(j, j))
    path.unlink()
    assert_close(gram(net, x, out=path), theta_of(j, j))  # the list of the removed file does not count


@pytest.mark.parametrize("part", [(2, 2), (-1, 2), (0, 0), (0.5, 2), 3])
def test_a_part_that_is_none_is_refused(part, tmp_path):
    net, x, _ = example()
    error_of(lambda: gram(net, x, out=tmp_path / "theta.npy", part=part), f"part {part!r}: allowed is (k, of)")
    error_of(lambda: gram(net, x, part=(0, 1)), "part needs a file")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("n1", "n2", "tile", "of"), [(100, 0, 10, 4), (97, 0, 10, 7), (400, 0, 10, 50), (50, 90, 7, 8)]
)
def test_parts_are_balanced_blocks_of_tiles(n1, n2, tile, of):
    ends, symmetric = (n1, n2 or n1), not n2
    tiles = [(i, j) for i in range(0, ends[0], tile) for j in range(i if symmetric else 0, ends[1], tile)]
    parts = [share(tiles, tile, ends, symmetric, (k, of)) for k in range(of)]
    assert sorted(each for part in parts for each in part) == tiles

    def work(part):
        pairs = [
            min(tile, ends[0] - i) * min(tile, ends[1] - j) * (0.5 if symmetric and i == j else 1) for i, j in part
        ]
        return sum(pairs) / tile**2

    mean = work(tiles) / of
    assert all(abs(work(part) - mean) <= 1 for part in parts)  # by a tile
    held = [
        len({("row", i) for i, _ in part} | {("row" if symmetric else "column", j) for _, j in part}) for part in parts
    ]
    assert sum(held) / of < 4 * mean**0.5 + 2  # sides of points; a block of as many tiles has 2 sqrt(mean)
