"""Random batches: steps and speeds with known answers, and rows of synthetic points and of digits."""

import numpy as np
import pytest
import torch

from bench.core.errors import UserError
from bench.learn import data
from bench.studies.theory.experiments import _batches, _two_layers, npc_batches, npc_batches_images
from bench.studies.theory.task import Task

CPU = torch.device("cpu")
SIZES = {"batches": 3, "at_once": 2, "points": 4, "pool": 20, "test": 10, "d": 3, "width": 500, "steps": 40}
SIZES |= {"goal": 0.01, "far": 1e-8}


def test_steps_to_a_goal_by_hand():
    """Eigenvalues 1 and 0.1, the residual along one of them, eta = 1/2: 0.5^(2k) and 0.95^(2k) of the loss."""
    kernel = torch.diag(torch.tensor([1.0, 0.1]).double())
    assert _batches.steps_to(kernel, torch.tensor([1.0, 0.0]).double(), 0.5, 0.01) == 4  # 0.25^3 > 0.01 > 0.25^4
    expected = int(np.ceil(np.log(0.01) / (2 * np.log(0.95))))
    assert _batches.steps_to(kernel, torch.tensor([0.0, 1.0]).double(), 0.5, 0.01) == expected


def test_steps_to_a_goal_against_a_loop():
    draw = np.random.default_rng(0)
    h = draw.normal(size=(4, 6))
    kernel, residual = torch.from_numpy(h @ h.T), torch.from_numpy(draw.normal(size=4))
    eta, r, steps = 0.9 / float(torch.linalg.eigvalsh(kernel)[-1]), residual, 0
    while r.square().sum() > 0.01 * residual.square().sum():
        r, steps = r - eta * kernel @ r, steps + 1
    assert _batches.steps_to(kernel, residual, eta, 0.01) == steps


def test_what_is_never_learnt_is_refused():
    with pytest.raises(UserError, match="the loss never falls so far"):
        _batches.steps_to(torch.zeros(2, 2).double(), torch.ones(2).double(), 0.5, 0.01)


def test_largest_stable_step_of_a_wide_net_is_two_over_lambda_max():
    draw = np.random.default_rng(0)
    net = _two_layers.draw(20000, 3, "relu", torch.Generator().manual_seed(0), CPU)
    x, y = torch.from_numpy(draw.normal(size=(3, 3))), torch.from_numpy(draw.normal(size=3))
    most = float(torch.linalg.eigvalsh(net.kernel(x, x))[-1])
    step = _batches.largest_stable(net, x, y, (0.1 / most, 20 / most), 60)
    assert step * most == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("setting", ["gaussian", "clusters"])
def test_rows_do_not_depend_on_how_many_are_saved_together(setting):
    task = Task(setting, SIZES, 0, CPU)
    rows = [row for part in npc_batches.parts(SIZES) for row in npc_batches.measure(task, part)]
    assert [row["batch"] for row in rows] == [0, 1, 2]
    assert set(rows[0]) == set(npc_batches.COLUMNS)
    at_once = Task(setting, SIZES | {"at_once": 3}, 0, CPU)
    assert npc_batches.measure(at_once, {"first": 0}) == rows
    assert all(row["steps_far"] >= row["steps_common"] >= row["steps_own"] > 0 for row in rows)


def test_rows_of_digits(root):
    task = Task("digits", SIZES, 0, CPU, data.load("digits", root))
    rows = npc_batches_images.measure(task, {"first": 0})
    assert [set(row) for row in rows] == [set(npc_batches_images.COLUMNS)] * 2
    big = Task("digits", SIZES | {"pool": 10**6}, 0, CPU, data.load("digits", root))
    with pytest.raises(
        UserError, match="digits: 1000000 images to train and 10 to test wanted, there are 1300 and 497"
    ):
        npc_batches_images.measure(big, {"first": 0})


def test_batches_larger_than_the_pool_are_refused():
    with pytest.raises(UserError, match="batches of 21 points from a pool of 20: at most the pool"):
        npc_batches.measure(Task("gaussian", SIZES | {"points": 21}, 0, CPU), {"first": 0})
