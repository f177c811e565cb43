"""Counted work: by hand for explicit Jacobians, and growing like U^2 for the engine too."""

import numpy as np
import torch

from bench.studies.theory.experiments import _two_layers, block_cost
from bench.studies.theory.task import Task

SIZES = {"labelled": 4, "width": 5, "d": 3}
CPU = torch.device("cpu")


def test_explicit_count_by_hand():
    row = block_cost.measure(Task("explicit", SIZES, 0, CPU), {"U": 7})[0]
    p = 5 * 3 + 5
    assert row["P"] == p
    assert (row["ll"], row["ul"], row["uu"]) == (2 * 4 * 4 * p, 2 * 7 * 4 * p, 2 * 7 * 7 * p)
    assert row["stated"] + row["uu"] == row["total"]
    assert row["omitted"] == 49 / (16 + 28 + 49)
    assert set(row) | {"U"} == set(block_cost.COLUMNS)


def test_jacobian_gives_the_kernel():
    net = _two_layers.draw(5, 3, "relu", torch.Generator().manual_seed(0), CPU)
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).double()
    j = block_cost.jacobian(net, x)
    torch.testing.assert_close(j @ j.T, net.kernel(x, x), rtol=1e-12, atol=1e-14)


def test_the_engine_counts_a_square_too():
    for setting in ("fcn", "wrn"):
        few, many = (block_cost.measure(Task(setting, SIZES, 0, CPU), {"U": u})[0] for u in (1000, 4000))
        growth = np.log(many["uu"] / few["uu"]) / np.log(4)
        assert 1.8 < growth < 2.1
        assert np.log(many["ul"] / few["ul"]) / np.log(4) < 1.05
        assert block_cost.measure(Task(setting, SIZES, 1, CPU), {"U": 1000})[0] == few  # whatever the seed
