"""DARP against a general convex solver, loops over entries, and the released coordinate ascent."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from bench.core.errors import UserError
from bench.learn.darp import PRECISION, SMALL, _direction, coordinate_ascent, denoised, newton, refine, uniform, weights


def probabilities(n: int, classes: int, seed: int, sharpness: float = 2.0, lean: float = 1.0) -> torch.Tensor:
    """Softmax rows (N, K) that prefer some classes to others."""
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.double)  # noqa: E731
    return (sharpness * normal(n, classes) + lean * normal(classes)).softmax(1)


def target(n: int, classes: int, seed: int) -> torch.Tensor:
    return n * probabilities(1, classes, seed + 1000, 1.0, 0.0)[0]


@pytest.mark.parametrize("seed", range(3))
def test_newton_agrees_with_a_general_convex_solver(seed):
    n, classes = 5, 3
    a, q = probabilities(n, classes, seed), target(n, classes, seed)
    w = weights(a)
    ours = newton(a.log(), w, q).numpy()
    a, w, q = a.numpy(), w.numpy(), q.numpy()

    def divergence(x: np.ndarray) -> tuple[float, np.ndarray]:
        """sum_n w_n KL(X_n || A_n) and its gradient."""
        ratio = np.log(x.reshape(a.shape) / a)
        return float((w[:, None] * x.reshape(a.shape) * ratio).sum()), (w[:, None] * (ratio + 1)).ravel()

    rows = {"type": "eq", "fun": lambda x: x.reshape(a.shape).sum(1) - 1}
    columns = {"type": "eq", "fun": lambda x: (x.reshape(a.shape).sum(0) - q)[:-1]}  # the last one follows
    found = minimize(
        divergence,
        np.tile(q / n, (n, 1)).ravel(),
        method="SLSQP",
        jac=True,
        bounds=[(1e-12, 1)] * a.size,
        constraints=[rows, columns],
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    np.testing.assert_allclose(ours, found.x.reshape(a.shape), atol=2e-5)
    assert divergence(ours.ravel())[0] <= found.fun + 1e-8


@settings(max_examples=40)
@given(
    st.integers(1, 60),
    st.integers(2, 12),
    st.integers(0, 10**6),
    st.sampled_from([0.1, 1.0, 5.0, 50.0, 1000.0]),
    st.sampled_from([0.0, 3.0, 100.0]),
    st.booleans(),
)
def test_rows_sum_to_one_and_columns_to_the_target(n, classes, seed, sharpness, lean, even):
    p = probabilities(n, classes, seed, sharpness, lean)
    q = uniform(n, classes) if even else target(n, classes, seed)
    x = refine(p, q)
    assert (x >= 0).all()
    torch.testing.assert_close(x.sum(1), torch.ones(n, dtype=torch.double), atol=1e-12, rtol=0)
    torch.testing.assert_close(x.sum(0), q, atol=max(PRECISION * n, 1e-12 * n), rtol=0)


@pytest.mark.parametrize("seed", range(12))
def test_sure_and_unsure_rows_together_with_classes_almost_empty(seed):
    """Weights from 0.5 to 1e5 and targets down to 1e-6: where a plain Newton step overflows."""
    n, classes = 22 + 5 * seed, 4 + seed
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.double)  # noqa: E731
    sharpness = 10 ** (5 * torch.rand(n, 1, generator=generator, dtype=torch.double) - 1)
    p, q = (sharpness * normal(n, classes) + 3 * normal(classes)).softmax(1), n * (4 * normal(classes)).softmax(0)
    torch.testing.assert_close(refine(p, q).sum(0), q, atol=PRECISION * n, rtol=0)


def test_newton_s_step_solves_with_the_hessian():
    x, v = probabilities(30, 5, 1), 1 / weights(probabilities(30, 5, 2))
    gradient = target(30, 5, 1) - x.sum(0)
    hessian = sum(rate * (torch.diag(row) - torch.outer(row, row)) for rate, row in zip(v, x, strict=True))
    step = _direction(x, v, gradient)
    assert step[-1] == 0
    torch.testing.assert_close(hessian @ step, -gradient)


def test_many_rows_start_from_the_solution_on_a_part():
    n, classes = 2 * SMALL + 1, 7
    p, q = probabilities(n, classes, 0, 10.0, 5.0), target(n, classes, 0)
    torch.testing.assert_close(refine(p, q).sum(0), q, atol=PRECISION * n, rtol=0)


def test_the_released_coordinate_ascent_approaches_the_same_point():
    n, classes = 40, 4
    a = denoised(probabilities(n, classes, 3), q := uniform(n, classes), 2.0)
    w = weights(a)
    exact = newton(a.log(), w, q)
    errors = [
        float((coordinate_ascent(a.log(), w, q, rounds, tolerance) - exact).abs().max())
        for rounds, tolerance in ((1, 0.1), (10, 0.1), (100, 1e-9), (3000, 1e-12))
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-6


def test_the_released_solver_is_a_named_option():
    p, q = probabilities(200, 5, 1), uniform(200, 5)
    released = refine(p, q, solver="released")
    assert (released.sum(0) - q).abs().max() < (p.sum(0) - q).abs().max() / 2  # columns only nearly
    torch.testing.assert_close(released.sum(1), torch.ones(200, dtype=torch.double))


@pytest.mark.parametrize("alpha", [0.1, 1.0, 2.0, 100.0])
def test_noise_removal_entry_by_entry(alpha):
    n, classes = 9, 3
    p, q = probabilities(n, classes, 5), target(n, classes, 5)
    kept = [[0.0] * classes for _ in range(n)]
    for k in range(classes):
        count = min(max(int(alpha * q[k].item()), 1), n)
        best = sorted(range(n), key=lambda row: -p[row, k].item())[:count]
        for row in best:
            kept[row][k] = p[row, k].item() * q[k].item() / sum(p[other, k].item() for other in best)
    kept = [[value + 1e-6 for value in row] for row in kept]
    expected = [[value / sum(row) for value in row] for row in kept]
    torch.testing.assert_close(denoised(p, q, alpha), torch.tensor(expected, dtype=torch.double))


def test_weights_are_inverse_entropies_and_stay_positive():
    a = probabilities(6, 4, 2)
    expected = [-1 / sum(value * math.log(value + 1e-6) for value in row) for row in a.tolist()]
    torch.testing.assert_close(weights(a), torch.tensor(expected, dtype=torch.double))
    sure = torch.tensor([[1 - 2e-9, 1e-9, 1e-9]], dtype=torch.double)  # -sum p ln(p + 1e-6) < 0
    assert weights(sure).item() == pytest.approx(1e6)


def test_a_fixed_point_where_the_marginals_agree():
    p = probabilities(30, 4, 7)
    torch.testing.assert_close(newton(p.log(), weights(p), p.sum(0)), p)


def test_one_hot_rows_move_only_as_far_as_they_must():
    balanced = torch.eye(3, dtype=torch.double).repeat(4, 1)
    torch.testing.assert_close(refine(balanced, uniform(12, 3)), balanced, atol=1e-5, rtol=0)
    p = torch.eye(3, dtype=torch.double)[[0] * 8 + [1, 1, 2, 2]]
    x = refine(p, uniform(12, 3))
    torch.testing.assert_close(x.sum(0), uniform(12, 3), atol=1e-7, rtol=0)
    torch.testing.assert_close(x[8:], p[8:], atol=1e-3, rtol=0)  # classes 1 and 2 need more, not less
    assert (x[:8, 0] < 0.95).all()  # the excess is no longer sure


def test_an_empty_class_gets_nothing():
    p, q = probabilities(10, 3, 4), torch.tensor([6.0, 0.0, 4.0])
    x = refine(p, q)
    assert (x[:, 1] == 0).all()
    torch.testing.assert_close(x.sum(0), q.double(), atol=1e-7, rtol=0)
    only = refine(p, torch.tensor([0.0, 10.0, 0.0]))
    assert torch.equal(only, torch.tensor([[0.0, 1.0, 0.0]] * 10, dtype=torch.double))


def test_a_class_that_no_row_gives_anything_is_filled_all_the_same():
    p = torch.tensor([[1.0, 0.0]] * 6)
    torch.testing.assert_close(refine(p, uniform(6, 2)).sum(0), torch.tensor([3.0, 3.0]))


def test_rows_never_seen_are_left_out():
    p, seen = probabilities(12, 3, 6).float(), torch.tensor([True, False, True] * 4)
    p[~seen] = float("nan")  # never read
    x = refine(p, torch.tensor([6.0, 3.0, 3.0]), seen)
    assert torch.equal(x[seen], refine(p[seen], torch.tensor([4.0, 2.0, 2.0])))
    assert torch.equal(x[~seen], torch.full((4, 3), 1 / 3))
    none = torch.zeros(12, dtype=torch.bool)
    assert torch.equal(refine(p, uniform(12, 3), none), torch.full((12, 3), 1 / 3))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"p": torch.tensor([[0.5, 0.5], [float("nan"), 1.0]])}, "1 of 2 rows of probabilities hold NaN"),
        ({"p": torch.tensor([[0.5, 0.5], [-1.0, 2.0]])}, "1 of 2 rows"),
        ({"target": torch.tensor([1.0, 0.5])}, "sum to 1.5, but there are 2 rows; scale it to 2"),
        ({"target": torch.tensor([3.0, -1.0])}, "2 counts >= 0"),
        ({"target": torch.tensor([2.0])}, "2 counts >= 0, one per class; found [2.0]"),
        ({"target": torch.tensor([float("nan"), 2.0])}, "2 counts >= 0"),
        ({"solver": "secant"}, "found the solver 'secant'; allowed: newton, released"),
        ({"alpha": 0.0}, "found alpha = 0; allowed"),
    ],
)
def test_bad_input_is_one_line(change, words):
    with pytest.raises(UserError) as error:
        refine(**{"p": torch.tensor([[0.5, 0.5], [0.5, 0.5]]), "target": uniform(2, 2)} | change)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
