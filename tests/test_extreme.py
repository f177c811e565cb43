"""The best batch by smallest eigenvalue or log-determinant, against the eigenvalues of every batch."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.core.errors import UserError
from bench.core.seeds import stream, torch_stream
from bench.kernels import extreme

SIZES = {"seed": st.integers(0, 10**6), "labelled": st.integers(0, 12), "size": st.integers(1, 9)}


def some_features(points, d, seed, scale=1.0):
    """Not negative, as after a ReLU, with a 1 for the bias."""
    h = torch.randn(points, d, generator=torch_stream(seed), dtype=torch.double).relu()
    return torch.cat([scale * h, torch.ones(points, 1)], 1)  # (n, d + 1)


def some_batches(labelled, points, m, size, seed):
    draw = stream(seed, "batches")
    drawn = [draw.choice(np.arange(labelled, points), size, replace=False) for _ in range(m)]
    return torch.from_numpy(np.stack(drawn))  # (m, Q)


def spectra(kernel, labelled, batches):
    """All eigenvalues of every batch, descending, (m, N)."""
    known = list(range(labelled))
    sets = [known + batch.tolist() for batch in batches]
    matrices = torch.from_numpy(np.stack([kernel[np.ix_(each, each)] for each in sets]))
    return torch.linalg.eigvalsh(matrices).flip(1).numpy()


def assert_best(best, scores):
    tolerance = 1e-12 * max(1, abs(scores).max()) + best.noise
    assert best.score == pytest.approx(scores.max(), abs=tolerance)
    assert scores[best.batch] >= scores.max() - tolerance
    assert best.tied >= 1


@given(**SIZES, d=st.integers(1, 25), m=st.integers(1, 60))
def test_the_smallest_eigenvalue_that_is_not_zero_by_construction(seed, labelled, size, d, m):
    points = labelled + size + 6
    features, batches = some_features(points, d, seed), some_batches(labelled, points, m, size, seed)
    independent = extreme.span(features)
    torch.testing.assert_close(independent @ independent.mT, features @ features.mT)
    rank = np.linalg.matrix_rank(features.numpy(), tol=1e-7)
    assert independent.shape == (points, rank)
    scores = spectra((features @ features.mT).numpy(), labelled, batches)[:, min(labelled + size, rank) - 1]
    assert_best(extreme.of_features(independent, labelled, batches), scores)


@given(**SIZES, m=st.integers(1, 60))
def test_the_smallest_eigenvalue_of_a_kernel(seed, labelled, size, m):
    points = labelled + size + 6
    features, batches = some_features(points, 40, seed), some_batches(labelled, points, m, size, seed)
    kernel = features @ features.mT
    assert_best(extreme.of_kernel(kernel, labelled, batches), spectra(kernel.numpy(), labelled, batches)[:, -1])


@given(**SIZES, d=st.integers(1, 25), m=st.integers(1, 60))
def test_the_log_determinant(seed, labelled, size, d, m):
    points = labelled + size + 6
    features, batches = some_features(points, d, seed), some_batches(labelled, points, m, size, seed)
    kernel = (features @ features.mT).numpy()
    ridge = extreme.RIDGE * kernel.diagonal().mean()
    scores = np.log(spectra(kernel, labelled, batches).clip(0) + ridge).sum(1)
    best = extreme.log_determinant(features, labelled, batches)
    assert best.score == pytest.approx(scores.max(), abs=1e-6)
    assert scores[best.batch] >= scores.max() - 1e-6


@pytest.mark.parametrize(("labelled", "size", "d"), [(30, 20, 128), (60, 20, 128), (0, 40, 64), (80, 30, 64)])
@pytest.mark.parametrize("scale", [1, 1e-3])  # at 1e-3 all rows nearly agree, as those of an untrained network do
def test_the_very_batch_in_rounds_and_chunks(labelled, size, d, scale, monkeypatch):
    features, batches = some_features(400, d, 1, scale), some_batches(labelled, 400, 300, size, 2)
    kernel = (features @ features.mT).numpy()
    expected = spectra(kernel, labelled, batches)[:, min(labelled + size, d + 1) - 1].argmax()
    for entries in (2**18, 1):
        monkeypatch.setattr(extreme, "ENTRIES", entries)
        best = extreme.of_features(features, labelled, batches)
        assert (best.batch, best.tied) == (expected, 1)
        assert best.score > best.noise
        if labelled + size <= d:
            assert extreme.of_kernel(torch.from_numpy(kernel), labelled, batches).batch == expected


def test_few_eigenvalue_problems(monkeypatch):
    solved, eigvalsh = [], torch.linalg.eigvalsh
    monkeypatch.setattr(torch.linalg, "eigvalsh", lambda matrices: solved.append(len(matrices)) or eigvalsh(matrices))
    extreme.of_features(some_features(400, 40, 0), 10, some_batches(10, 400, 1000, 20, 0))
    assert sum(solved) < 60


def test_batches_that_rounding_cannot_tell_apart_are_tied_and_the_first_is_taken():
    features = some_features(60, 30, 0)
    features[1] = features[0]  # two labelled copies: lambda_min = 0 whatever is bought
    best = extreme.of_features(features, 5, some_batches(5, 60, 40, 8, 0))
    assert (best.batch, best.tied) == (0, 40)
    assert abs(best.score) < best.noise
    features[1, 0] += 1e-3  # nearly copies: their eigenvalue is the smallest, and all batches have it but for rounding
    features[5:, :10], features[:5, 10:] = 0, 0
    best = extreme.of_features(features, 5, some_batches(5, 60, 40, 3, 0))
    assert (best.batch, best.tied) == (0, 40)
    assert best.score > best.noise


def test_copies_of_a_batch_tie():
    features, batches = some_features(50, 30, 0), some_batches(10, 50, 20, 6, 0)
    alone = extreme.of_features(features, 10, batches)
    order = [3, 0, *range(20), *range(20)]
    best = extreme.of_features(features, 10, batches[order])
    assert (order[best.batch], best.tied) == (alone.batch, order.count(alone.batch))
    assert best.batch == order.index(alone.batch)
    best = extreme.log_determinant(features, 10, batches[order])
    assert best.batch == order.index(order[best.batch])
    assert best.tied == order.count(order[best.batch])


def test_units_that_are_zero_or_copies_do_not_count():
    features = some_features(40, 8, 0)
    padded = torch.cat([features, torch.zeros(40, 3), features[:, :2]], 1)
    assert extreme.span(padded).shape == (40, 9)
    assert extreme.span(features[:, :1].expand(40, 4)).shape == (40, 1)


def test_float32_is_brought_to_float64():
    features, batches = some_features(40, 20, 0).float(), some_batches(5, 40, 30, 6, 0)
    kernel = features.double() @ features.double().mT
    for best in (
        extreme.of_features(features, 5, batches),
        extreme.of_kernel(kernel.float(), 5, batches),
    ):
        assert best.score == pytest.approx(spectra(kernel.numpy(), 5, batches)[:, -1].max(), rel=1e-4)
        assert best.noise < 1e-11


@pytest.mark.parametrize("search", [extreme.of_features, extreme.log_determinant, extreme.of_kernel])
class TestBadInput:
    @pytest.fixture
    def given(self, search):
        features = some_features(12, 11, 0)
        return features @ features.mT if search is extreme.of_kernel else features

    def test_no_batch(self, search, given):
        with pytest.raises(UserError, match=r"found \(0, 3\): draw at least one batch"):
            search(given, 4, torch.zeros(0, 3, dtype=torch.long))

    def test_more_than_the_pool(self, search, given):
        with pytest.raises(UserError, match="batches of 9 from a pool of 8"):
            search(given, 4, torch.zeros(2, 9, dtype=torch.long))

    @pytest.mark.parametrize("wrong", [3, 12])
    def test_positions_that_are_no_candidates(self, search, given, wrong):
        with pytest.raises(UserError, match="positions 4 to 11"):
            search(given, 4, torch.tensor([[4, wrong]]))

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_what_is_not_a_number(self, search, given, bad):
        given[5] = bad
        with pytest.raises(UserError, match="diverged"):
            search(given, 4, torch.tensor([[6, 7]]))


def test_features_that_are_all_zero():
    with pytest.raises(UserError, match="all points are zero"):
        extreme.span(torch.zeros(5, 3))
