"""NPC's Proposition 1 and its examples: kernels with a known rank, pairs by hand, copies."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.core.errors import UserError
from bench.studies.theory.experiments import npc_positivity
from bench.studies.theory.experiments.npc_positivity import pairs, rank, smallest
from bench.studies.theory.task import Task

SIZES = {"nets": 1, "points": [3, 10, 30], "pixels": 4, "widths": [16, 1], "triples": 10}


def test_three_points_in_the_plane_are_distinct_and_singular():
    """The rows of the kernel differ, and lambda_min is 0 all the same: three vectors of two coordinates."""
    h = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).double()
    assert rank(h @ h.T) == 2
    assert smallest(h @ h.T) == pytest.approx(0, abs=1e-14)
    assert smallest((h @ h.T)[:2, :2]) == pytest.approx(1)


@given(st.floats(-1, 1), st.floats(-1, 1), st.integers(0, 100))
def test_pairs_of_unit_gradients(a, b, seed):
    kernel = np.array([[1.0, a, b], [a, 1.0, 0.0], [b, 0.0, 1.0]])
    found = pairs(kernel, np.random.default_rng(seed), 5)
    assert found["pair_error"] < 1e-14
    if len({abs(a), abs(b), 0.0}) == 3 and min(abs(abs(a) - abs(b)), abs(a), abs(b)) > 1e-9:
        assert found["agree"] == 1


def test_a_short_gradient_can_win_against_the_angle():
    """u is orthogonal to l but short, u' long at 45 degrees: lambda_min is 0.01 and about 0.3, so the angle loses."""
    g = np.array([[1.0, 0.0], [0.0, 0.1], [1.0, 1.0]])
    raw = [np.linalg.eigvalsh((g @ g.T)[np.ix_(pair, pair)])[0] for pair in ([0, 1], [0, 2])]
    assert raw == pytest.approx([0.01, (3 - np.sqrt(5)) / 2])
    kernel = g @ g.T + 1e-9 * np.eye(3)
    draws = [pairs(kernel, np.random.default_rng(seed), 1)["agree"] for seed in range(20)]
    assert 0 in draws


def test_too_few_points_are_refused():
    with pytest.raises(UserError, match="three points, found 2"):
        pairs(np.eye(2), np.random.default_rng(0), 1)


def test_rows_of_a_real_net():
    rows = npc_positivity.measure(Task("fcn", SIZES, 0, torch.device("cpu")), {"net": 0})
    assert [set(row) | {"net"} for row in rows] == [set(npc_positivity.COLUMNS)] * 12
    for row in rows:
        if row["set"] == "copies":
            assert abs(row["margin"]) < 1
        elif row["kernel"] == "all":
            assert row["margin"] > 1
            assert row["last_over_all"] <= 1
        else:
            assert row["rank"] <= 17  # sixteen features and a bias
            assert (row["margin"] > 1) == (row["points"] <= row["rank"])
