"""The block formula (2.12) against solving anew: by hand, as printed, and where nothing can change."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.core.errors import UserError
from bench.studies.theory.experiments import block_formula
from bench.studies.theory.experiments.block_formula import compare, direct, gaussian, printed, spectrum
from bench.studies.theory.task import Task


def blocks_of(k: np.ndarray, labelled: int, seed: int = 0) -> tuple:
    draw, n = np.random.default_rng(seed), len(k)
    given_ = k[:labelled, :labelled], k[labelled:, :labelled], k[labelled:, labelled:]
    return *given_, draw.normal(size=(labelled, 1)), draw.normal(size=(n - labelled, 1)), draw.normal(size=n - labelled)


@given(seed=st.integers(0, 1000), condition=st.floats(1.5, 1e4), labelled=st.integers(1, 6), pool=st.integers(1, 4))
def test_the_inverse_makes_it_exact(seed, condition, labelled, pool):
    k = spectrum(labelled + pool, condition, np.random.default_rng(seed))
    found = compare(*blocks_of(k, labelled, seed))
    assert found["error"] < 1e-10
    assert found["posterior_error"] < 1e-10


def test_direct_by_hand():
    """One label, one candidate: the two-dimensional system written out."""
    k = np.array([[2.0, 1.0], [1.0, 3.0]])
    outputs = direct(k[:1, :1], k[1:, :1], k[1:, 1:], np.array([0.5]), np.array([0.25]), 0, 1.0, 0.0)
    assert outputs == pytest.approx([1.0])  # the candidate gets its label
    other = direct(
        k[:1, :1],
        np.array([[1.0], [0.5]]),
        np.array([[3.0, 0.1], [0.1, 1.0]]),
        np.array([0.5]),
        np.zeros(2),
        0,
        1.0,
        0.0,
    )
    weights = np.linalg.inv(k) @ [0.5, 1.0]
    assert other[1] == pytest.approx(0.5 * weights[0] + 0.1 * weights[1])


def test_as_printed_it_is_right_only_if_the_kernel_is_its_own_inverse():
    """K_LL = I: the inverse that is missing changes nothing. K_LL = 2 I: it does."""
    draw = np.random.default_rng(0)
    cross = 0.3 * draw.normal(size=(2, 3))
    for scale, right in ((1.0, True), (2.0, False)):
        k = np.block([[scale * np.eye(3), cross.T], [cross, 5 * np.eye(2)]])
        k_ll, k_ul, k_uu, residual, prior, labels = blocks_of(k, 3)
        f_lin = prior[:, 0] + k_ul @ residual[:, 0] / scale
        given_ = (k_ll, k_ul, k_uu, residual[:, 0], prior[:, 0])
        error = np.abs(printed(*given_, f_lin, 0, labels[0], 0.0) - direct(*given_, 0, labels[0], 0.0)).max()
        assert (error < 1e-12) == right


@pytest.mark.parametrize("condition", [10.0, 1000.0])
def test_kernels_have_the_condition_number(condition):
    draw = np.random.default_rng(0)
    assert np.linalg.cond(spectrum(20, condition, draw)) == pytest.approx(condition, rel=1e-6)
    assert np.linalg.cond(gaussian(20, condition, draw)) == pytest.approx(condition, rel=0.06)


def test_candidates_that_change_nothing_are_refused():
    same = np.ones((3, 3))  # a label and two copies of it
    with pytest.raises(UserError, match="no candidate changes anything"):
        compare(*blocks_of(same, 1)[:3], np.zeros((1, 1)), np.zeros((2, 1)), np.zeros(2))


def test_rows():
    sizes = {"labelled": 5, "pool": 3, "trials": 2}
    for setting in block_formula.SETTINGS:
        rows = block_formula.measure(Task(setting, sizes, 0, torch.device("cpu")), {"condition": 100.0})
        assert [set(row) | {"condition"} for row in rows] == [set(block_formula.COLUMNS)] * 2
