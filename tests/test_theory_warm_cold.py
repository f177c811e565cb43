"""Warm against cold starts with a fixed kernel: by hand, in closed form, and where the theorem does not apply."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.core.errors import UserError
from bench.kernels import infinite
from bench.report import figure
from bench.studies.theory.experiments.warm_cold import apart, chain, measure, sphere
from bench.studies.theory.task import Task

SIZES = {"points": 12, "test": 5, "d": 4, "ridges": [1e-6, 1e-3], "times": [1.0], "dropped": [0.5], "trials": 2}


def task(setting: str, **changes) -> Task:
    return Task(setting, SIZES | changes, 0, torch.device("cpu"))


def given_points(seed: int, n: int = 10, d: int = 4) -> tuple:
    draw = np.random.default_rng(seed)
    return infinite.fcn(sphere(n, d, draw), depth=1).ntk, torch.from_numpy(draw.normal(size=(n, 1))), draw


@given(seed=st.integers(0, 1000), first=st.integers(1, 5), second=st.integers(1, 3))
def test_nested_chains_end_where_cold_starts_do(seed, first, second):
    k, f0, draw = given_points(seed)
    sets = [np.arange(first), np.arange(first + second)]
    y = torch.from_numpy(draw.normal(size=(2, 10, 1)))  # new labels in the second stage
    assert apart(k, f0, y, sets, slice(8, None)) < 1e-10


def test_gap_of_sets_that_are_not_nested_by_hand():
    """One point in the first set, another in the second: both predictions written out."""
    k, f0, draw = given_points(3)
    y = torch.from_numpy(draw.normal(size=(1, 10, 1))).expand(2, -1, -1)
    f1 = f0 + k[:, :1] / k[0, 0] * (y[0, 0] - f0[0])
    warm = f1 + k[:, 1:2] / k[1, 1] * (y[0, 1] - f1[1])
    cold = f0 + k[:, 1:2] / k[1, 1] * (y[0, 1] - f0[1])
    expected = (warm - cold)[2:].abs().max() / (cold - f0)[2:].abs().max()
    assert apart(k, f0, y, [np.array([0]), np.array([1])], slice(2, None)) == pytest.approx(float(expected), rel=1e-12)


def test_gap_of_a_ridge_by_hand():
    k, f0, draw = given_points(4)
    y = torch.from_numpy(draw.normal(size=(1, 10, 1))).expand(2, -1, -1)
    ridge = 0.5 * float(k.diagonal().mean())
    gain = k[:, :1] / (k[0, 0] + ridge)
    cold = f0 + gain * (y[0, 0] - f0[0])
    warm = cold + gain * (y[0, 0] - cold[0])  # the same point twice: a ridge stops short of its label
    expected = (warm - cold)[1:].abs().max() / (cold - f0)[1:].abs().max()
    same = [np.array([0])] * 2
    assert apart(k, f0, y, same, slice(1, None), ridge=0.5) == pytest.approx(float(expected), rel=1e-12)


def test_gap_of_a_finite_time_by_hand():
    k, f0, draw = given_points(5)
    y = torch.from_numpy(draw.normal(size=(1, 10, 1))).expand(2, -1, -1)
    same = [np.array([0])] * 2  # one point, lambda_max = K_00, n = 1: after time 1 a share 1 / e is left
    share = 1 - np.exp(-1)
    cold = f0 + share * k[:, :1] / k[0, 0] * (y[0, 0] - f0[0])
    warm = cold + share * k[:, :1] / k[0, 0] * (y[0, 0] - cold[0])
    expected = (warm - cold)[1:].abs().max() / (cold - f0)[1:].abs().max()
    assert apart(k, f0, y, same, slice(1, None), time=1.0) == pytest.approx(float(expected), rel=1e-10)


@given(dropped=st.floats(0, 1), blocks=st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_chain(dropped, blocks):
    ends = np.cumsum([0, *blocks])
    blocks = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
    sets = chain(blocks, dropped, np.random.default_rng(0))
    assert all(set(block) <= set(chosen) for block, chosen in zip(blocks, sets, strict=True))
    for before, after in itertools.pairwise(sets):
        assert len(set(before) & set(after)) == round((1 - dropped) * len(before))
        assert len(set(after)) == len(after)


@pytest.mark.parametrize("setting", ["nested", "relabelled", "ridge", "finite-time", "not-nested"])
def test_rows(setting):
    rows = measure(task(setting), {"stages": 3})
    strengths = {"ridge": 2, "finite-time": 1, "not-nested": 1}.get(setting, 1)
    assert len(rows) == 2 * strengths
    gaps = [row["gap"] for row in rows]
    assert max(gaps) < 1e-10 if setting in ("nested", "relabelled") else min(gaps) > 1e-8


@pytest.mark.parametrize("there", [["ridge", "not-nested"], ["nested"]])
def test_the_figure_draws_what_is_there(there):
    cells = [
        {"setting": setting, "seed": 0, "stages": 3, **row}
        for setting in there
        for row in measure(task(setting), {"stages": 3})
    ]
    drawn = figure.draw("theory-warm-cold", {"theory-warm-cold": pd.DataFrame(cells).assign(scale="small")})
    assert len(drawn.axes) == (2 if "ridge" in there else 1)


def test_repeated_points_and_too_many_stages_are_refused():
    k, f0, _draw = given_points(0)
    same = np.zeros(10, dtype=int)
    with pytest.raises(UserError, match="not positive definite"):
        apart(k[same][:, same], f0, torch.zeros(1, 10, 1).double(), [np.array([0, 1])], slice(2, None))
    with pytest.raises(UserError, match="13 stages need as many points, there are 12"):
        measure(task("nested"), {"stages": 13})


def test_one_dimension():
    assert sphere(3, 1, np.random.default_rng(0)).abs().tolist() == [[1.0]] * 3
