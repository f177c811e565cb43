"""Kernels streamed to a file: the same, continued after a kill, and never mixed with another's."""

import copy
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from definition import assert_close, error_of, example, smooth, theta_of
from test_nets import images, shaken, small

from bench.kernels.empirical import gram
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
