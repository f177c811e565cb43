"""The exact supremum of a ReLU net's distance from its linearisation, against optimisation over which neurons flip."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from bench.studies.theory.experiments.linearisation_relu import bound, supremum


def distance(z: np.ndarray, outer: np.ndarray, moves: np.ndarray) -> float:
    """|f - f_lin| if neuron j moves by moves_j along x, |x| = 1: relu(z + u) - relu(z) - relu'(z) u, summed."""
    terms = np.maximum(z + moves, 0) - np.maximum(z, 0) - (z > 0) * moves
    return abs(outer @ terms) / np.sqrt(len(z))


def brute(z: np.ndarray, outer: np.ndarray, radius: float) -> float:
    """The best over all sets of neurons that move against their sign, by optimisation from equal moves."""
    best = 0.0
    for k in range(1, len(z) + 1):
        for chosen in combinations(range(len(z)), k):
            chosen = list(chosen)

            def value(free, chosen=chosen):
                moves = np.zeros(len(z))
                moves[chosen] = -np.sign(z[chosen]) * radius * np.abs(free) / max(np.linalg.norm(free), 1e-300)
                return -distance(z, outer, moves)

            found = optimize.minimize(value, np.ones(k), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
            best = max(best, -found.fun)
    return best


@pytest.mark.parametrize("seed", range(4))
def test_against_optimisation(seed):
    draw = np.random.default_rng(seed)
    z, outer = draw.normal(size=4), draw.choice([-1, 1], size=4)
    assert supremum(z, outer, 1.5) == pytest.approx(brute(z, outer, 1.5), rel=1e-5, abs=1e-9)


@given(seed=st.integers(0, 1000), m=st.integers(1, 20), radius=st.floats(0.01, 10))
def test_no_random_move_exceeds_it(seed, m, radius):
    draw = np.random.default_rng(seed)
    z, outer, moves = draw.normal(size=m), draw.choice([-1, 1], size=m), draw.normal(size=(50, m))
    moves *= radius / np.linalg.norm(moves, axis=1, keepdims=True)
    assert max(distance(z, outer, move) for move in moves) <= supremum(z, outer, radius) * (1 + 1e-12) + 1e-15


def test_known_answers():
    assert supremum(np.array([0.5]), np.array([1]), 2.0) == 1.5  # one neuron: B - |z|
    assert supremum(np.array([3.0]), np.array([1]), 2.0) == 0  # too far from its kink to flip
    assert supremum(np.zeros(4), np.ones(4), 1.0) == pytest.approx(1.0)  # B sqrt 4 / sqrt 4
    assert bound(64, 1.0, np.exp(-1)) == pytest.approx(3 / 2)  # (2 + 1) / 64^(1/6)
