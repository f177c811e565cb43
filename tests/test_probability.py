"""Probability maps against slow references."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import bisect

from bench.learn.probability import minmax, simplex, softmax

outputs = arrays(float, st.tuples(st.integers(1, 5), st.integers(2, 12)), elements=st.floats(-50, 50, width=32))


@given(outputs)
def test_rows_are_distributions_that_keep_the_order(x):
    for map in (minmax, simplex, softmax):
        p = map(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(p.sum(1), 1, atol=1e-9)
        assert (p >= 0).all()
        for row, values in zip(p, x, strict=True):
            assert (np.diff(row[np.argsort(values)]) >= -1e-12).all()


@given(outputs)
def test_simplex_is_the_euclidean_projection(x):
    p = simplex(torch.from_numpy(x)).numpy()
    for row, values in zip(p, x, strict=True):
        # The projection is max(u + s, 0) with the one shift s that makes it sum to one; found here by bisection.
        shift = bisect(lambda s, u=values: np.maximum(u + s, 0).sum() - 1, -values.max(), 1 - values.min(), xtol=1e-13)
        np.testing.assert_allclose(row, np.maximum(values + shift, 0), atol=1e-9)


@given(outputs)
def test_a_distribution_is_its_own_projection(x):
    p = simplex(torch.from_numpy(x))
    torch.testing.assert_close(simplex(p), p, atol=1e-12, rtol=0)


def test_minmax_by_hand():
    p = minmax(torch.tensor([[0.0, 1.0, 3.0], [2.0, 2.0, 2.0]], dtype=torch.double))
    total = 1e-6 + 1 / 3 + 1
    expected = [[1e-6 / total, 1 / 3 / total, 1 / total], [1 / 3] * 3]
    torch.testing.assert_close(p, torch.tensor(expected, dtype=torch.double))
