"""Named streams are addressed by name alone and independent of each other."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.core.seeds import stream, torch_stream

names = st.lists(st.one_of(st.text(max_size=5), st.integers(0, 9)), max_size=3)


@given(st.integers(0, 10**6), names)
def test_same_name_same_draws(seed, name):
    assert (stream(seed, *name).random(4) == stream(seed, *name).random(4)).all()
    first, again = (torch.rand(4, generator=torch_stream(seed, *name)) for _ in range(2))
    assert torch.equal(first, again)


@given(st.integers(0, 10**6), names, names, st.integers(0, 10**6))
def test_other_name_or_seed_other_draws(seed, name, other, other_seed):
    if (seed, name) != (other_seed, other):
        assert (stream(seed, *name).random(4) != stream(other_seed, *other).random(4)).any()


def test_a_name_is_not_its_concatenation():
    assert stream(1, "ab").random() != stream(1, "a", "b").random()
    assert stream(1, 23).random() != stream(12, 3).random()


def test_streams_are_uncorrelated():
    draws = np.stack([stream(seed, "batches", epoch).standard_normal(1000) for seed in range(6) for epoch in range(6)])
    off = np.corrcoef(draws)[~np.eye(len(draws), dtype=bool)]
    assert abs(off).max() < 0.17  # 36 * 35 / 2 pairs, standard error 0.032
