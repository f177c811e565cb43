"""Decay of the loss step by step, where it is known: one point, nothing to learn, too large a step."""

import numpy as np
import pytest
import torch

from bench.studies.theory.experiments import _two_layers, npc_descent
from bench.studies.theory.task import Task

CPU = torch.device("cpu")
SIZES = {"points": 4, "d": 3, "most": 30}


def net_of(m: int, activation: str = "erf") -> _two_layers.Net:
    return _two_layers.draw(m, 3, activation, torch.Generator().manual_seed(0), CPU)


def test_one_point_decays_as_fast_as_lambda_min():
    """lambda_min is the only eigenvalue, so that a wide net's loss shrinks by (1 - eta lambda)^2 exactly."""
    net, x = net_of(20000), torch.ones(1, 3).double()
    eta = 0.3 / float(net.kernel(x, x))
    rows = npc_descent.descend(net, x, net(x) + 0.01, eta, 10)
    assert [row["speed"] for row in rows] == pytest.approx([1] * len(rows), rel=1e-3)
    assert rows[0]["loss"] == pytest.approx(0.7**2, rel=1e-3)
    assert rows[0]["ratio"] == pytest.approx(0.7, rel=1e-3)
    assert rows[0]["bound"] == pytest.approx(0.7, rel=1e-9)


def test_against_a_slow_loop():
    net, draw = net_of(50, "relu"), np.random.default_rng(0)
    x, y = torch.from_numpy(draw.normal(size=(4, 3))), torch.from_numpy(draw.normal(size=4))
    w, a = net.w.clone().requires_grad_(), net.a.clone().requires_grad_()
    losses = []
    for _ in range(11):
        loss = (_two_layers.Net(w, a, "relu")(x) - y).square().sum() / 2
        losses.append(loss.item())
        grads = torch.autograd.grad(loss, (w, a))
        w, a = ((p - 0.05 * g).detach().requires_grad_() for p, g in zip((w, a), grads, strict=True))
    rows = {row["t"]: row for row in npc_descent.descend(net, x, y, 0.05, 10)}
    assert rows[10]["loss"] == pytest.approx(losses[10] / losses[0], rel=1e-10)


def test_nothing_to_learn_gives_no_rows():
    net, x = net_of(5), torch.ones(2, 3).double()
    assert npc_descent.descend(net, x, net(x), 0.1, 10) == []


def test_repeated_points_have_no_speed():
    """lambda_min is 0: the bound says nothing, and the speed is not a number."""
    net, x = net_of(100), torch.ones(2, 3).double()
    rows = npc_descent.descend(net, x, torch.tensor([1.0, 1.0]).double(), 0.1, 3)
    assert all(row["bound"] == pytest.approx(1, abs=1e-12) for row in rows)
    assert all(row["loss"] < 1 for row in rows)


def test_rows_and_a_step_that_is_too_large():
    task = Task("relu", SIZES, 0, CPU)
    small, large = (npc_descent.measure(task, {"m": 2000, "step": step}) for step in (0.5, 2.5))
    assert {*small[0], "m", "step"} == set(npc_descent.COLUMNS)
    assert max(row["ratio"] for row in small) < 1 < max(row["ratio"] for row in large)
    assert npc_descent.measure(task, {"m": 1, "step": 0.5})  # width 1
