"""Kernel regression against explicit inverses, refits, differential equations, and on kernels that have no answer."""

import math
import warnings

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bench.core.errors import UserError
from bench.kernels import infinite, regression
from bench.kernels.regression import gradient_flow, leave_one_out, regress, regress_iteratively

N, M, O = 12, 5, 3  # noqa: E741


def problem(n: int = N, m: int = M, outputs: int = O, seed: int = 0, full: bool = False):
    """A well-conditioned kernel on n + m points, targets and a prior: train, cross, targets, (f0(D), f0(x))."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    size = outputs if full else 1
    factor = draw((n + m) * size, 2 * (n + m) * size)
    kernel = factor @ factor.T / len(factor)
    return (
        kernel[: n * size, : n * size],
        kernel[n * size :, : n * size],
        draw(n, outputs),
        (draw(n, outputs), draw(m, outputs)),
    )


def exact(train, cross, targets, prior, ridge=0.0) -> Tensor:
    """The formula with an explicit inverse, one output at a time in the order of thesis (3.4)."""
    weights = np.linalg.inv(train.numpy() + ridge * np.eye(len(train))) @ (targets - prior[0]).numpy().reshape(
        len(train), -1
    )
    return prior[1] + torch.tensor(cross.numpy() @ weights).reshape(prior[1].shape)


def close(a: Tensor, b: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_is_the_formula(full, ridge):
    train, cross, targets, prior = problem(full=full)
    got = regress(train, cross, targets, prior, ridge=ridge, jitter="none")
    close(got.prediction, exact(train, cross, targets, prior, ridge))
    assert got.weights.shape == targets.shape
    assert got.jitter == 0
    assert got.residual < 1e-13


def test_without_prior_the_mean_is_zero():
    train, cross, targets, _ = problem()
    zero = (torch.zeros(N, O).double(), torch.zeros(M, O).double())
    assert torch.equal(regress(train, cross, targets).prediction, regress(train, cross, targets, zero).prediction)


def test_far_from_the_data_the_prior_remains():
    train, cross, targets, prior = problem()
    assert torch.equal(regress(train, 0 * cross, targets, prior).prediction, prior[1])


def test_scalar_kernel_is_the_full_kernel_k_kron_identity():
    """(3.5) is (3.4) with the pNTK kron I_O; pins the index n O + o."""
    train, cross, targets, prior = problem()
    eye = torch.eye(O).double()
    full = torch.kron(train, eye), torch.kron(cross, eye), targets, prior
    close(regress(train, cross, targets, prior).prediction, regress(*full).prediction)
    close(leave_one_out(train, targets, prior[0]).prediction, leave_one_out(full[0], targets, prior[0]).prediction)
    times = [0.5, math.inf]
    close(gradient_flow(train, cross, targets, times, prior), gradient_flow(*full[:3], times, prior))
    close(regress_iteratively(*full, tolerance=1e-12).prediction, regress(*full).prediction)


@given(seed=st.integers(0, 999), n=st.integers(1, 20), outputs=st.integers(1, 4), full=st.booleans())
def test_interpolates_and_reports_truthfully(seed, n, outputs, full):
    train, _, targets, prior = problem(n, 2, outputs, seed, full)
    got = regress(train, train, targets, (prior[0], prior[0]))
    close(got.prediction, targets, 1e-5)
    missed = train @ got.weights.reshape(len(train), -1) - (targets - prior[0]).reshape(len(train), -1)
    assert got.residual == pytest.approx((missed.norm() / (targets - prior[0]).norm()).item(), rel=1e-3, abs=1e-14)
    assert got.jitter == pytest.approx(1e-10 * train.diagonal().mean().item())


@given(seed=st.integers(0, 999))
def test_linear_in_the_targets_and_in_the_prior(seed):
    train, cross, targets, prior = problem(seed=seed)
    moved = regress(train, cross, targets + 2.5, (prior[0] + 2.5, prior[1])).prediction
    close(moved, regress(train, cross, targets, prior).prediction)
    close(regress(train, cross, -3 * targets).prediction, -3 * regress(train, cross, targets).prediction)
    close(regress(7 * train, 7 * cross, targets, prior).prediction, regress(train, cross, targets, prior).prediction)


def test_float32():
    train, cross, targets, prior = problem()
    got = regress(train.float(), cross.float(), targets.float(), tuple(p.float() for p in prior))
    assert got.prediction.dtype == torch.float32
    assert got.jitter == pytest.approx(1e-6 * train.diagonal().mean().item())
    close(got.prediction.double(), exact(train, cross, targets, prior), 1e-3)


@given(seed=st.integers(0, 999), n=st.integers(1, 30), spread=st.floats(0, 9))
def test_condition_estimate_is_lapacks(seed, n, spread):
    """From below, and in practice within a factor of three of the 1-norm condition number."""
    generator = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(generator.normal(size=(n, n)))
    matrix = basis * 10 ** -np.linspace(0, spread, n) @ basis.T
    matrix = (matrix + matrix.T) / 2
    got = regress(torch.tensor(matrix), torch.zeros(1, n).double(), torch.ones(n, 1).double(), jitter="none").condition
    truth = np.linalg.cond(matrix, 1)
    assert truth / 3 <= got <= truth * (1 + 1e-6)
    factor, _ = scipy.linalg.lapack.dpotrf(matrix, lower=1)
    reciprocal, _ = scipy.linalg.lapack.dpocon(factor, np.linalg.norm(matrix, 1), uplo="L")
    assert got == pytest.approx(1 / reciprocal, rel=2)


# Kernels without an answer, or with one that the jitter decides


def duplicated(targets: tuple[float, float]) -> tuple[Tensor, Tensor, Tensor]:
    """Two copies of one point with the targets given, beside two other points; the test point is that point again."""
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    kernel = infinite.fcn(x, depth=2, bias_variance=0.1).ntk
    return kernel, kernel[:1], torch.tensor([*targets, 0.0, 1.0], dtype=torch.float64)[:, None]


def test_conflicting_duplicates_are_averaged_and_said_so():
    train, cross, targets = duplicated((1.0, 3.0))
    with pytest.warns(RuntimeWarning, match="misses its targets"):
        got = regress(train, cross, targets)
    assert got.prediction.item() == pytest.approx(2.0, abs=1e-5)
    assert got.residual == pytest.approx(math.sqrt(2) / targets.norm().item(), rel=1e-4)  # 1 and 1 missed
    assert got.condition > 1e9
    assert got.jitter == pytest.approx(1e-10 * train.diagonal().mean().item())


def test_agreeing_duplicates_are_no_matter():
    train, cross, targets = duplicated((2.0, 2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = regress(train, cross, targets)
    assert got.prediction.item() == pytest.approx(2.0, abs=1e-6)


def test_a_ridge_is_a_wish_and_no_warning():
    train, cross, targets = duplicated((1.0, 3.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert regress(train, cross, targets, ridge=0.1).residual < 1e-6


def test_singular_without_jitter_is_refused():
    """Rows 0 and 2 are equal, and every number of the factorisation is exact."""
    train = torch.tensor([[4.0, 0.0, 4.0], [0.0, 1.0, 0.0], [4.0, 0.0, 4.0]]).double()
    with pytest.raises(UserError, match="row 2 is, to rounding"):
        regress(train, train, torch.eye(3).double(), jitter="none")


def test_rank_deficient_kernel_fits_what_it_can():
    """Rank 2 on 6 points: targets in its range are interpolated, others are projected on it, with a warning."""
    features = torch.randn(7, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    kernel = features @ features.T
    train, cross = kernel[:6, :6], kernel[6:, :6]
    inside = features[:6] @ torch.tensor([[1.0], [-2.0]]).double()
    close(regress(train, cross, inside).prediction, features[6:] @ torch.tensor([[1.0], [-2.0]]).double(), 1e-6)
    outside = inside + torch.tensor([1.0, -1, 1, -1, 1, -1]).double()[:, None]
    projected = torch.linalg.lstsq(features[:6], outside).solution
    with pytest.warns(RuntimeWarning):
        got = regress(train, cross, outside)
    close(got.prediction, features[6:] @ projected, 1e-4)
    with pytest.warns(RuntimeWarning, match="4 of 6 directions"):
        ends = gradient_flow(train, cross, outside, [math.inf, 1e30])
    close(ends[0], features[6:] @ projected, 1e-10)
    close(ends[1], features[6:] @ projected, 1e-10)


@pytest.mark.parametrize(("smallest", "jitter"), [(-0.01, "relative"), (-0.01, "none"), (-1e-9, "none")])
def test_a_negative_eigenvalue_beyond_the_jitter_is_refused(smallest, jitter):
    train, cross, targets, prior = problem()
    eigs, basis = torch.linalg.eigh(train)
    eigs[0] = smallest
    bent = basis @ eigs.diag() @ basis.T
    with pytest.raises(UserError, match="not positive definite"):
        regress((bent + bent.T) / 2, cross, targets, prior, jitter=jitter)


# Theorem 2.2.1: warm = cold


@given(seed=st.integers(0, 999), chain=st.lists(st.integers(1, 12), min_size=2, max_size=5, unique=True).map(sorted))
def test_warm_start_equals_cold_start_on_nested_sets(seed, chain):
    train, cross, targets, prior = problem(seed=seed)
    kernel = torch.cat([train, cross])  # K(all, D)
    warm = torch.cat(prior)  # f at the training and the test points
    for n in chain:
        warm = regress(train[:n, :n], kernel[:, :n], targets[:n], (warm[:n], warm), jitter="none").prediction
    n = chain[-1]
    cold = regress(train[:n, :n], cross[:, :n], targets[:n], (prior[0][:n], prior[1]), jitter="none").prediction
    close(warm[N:], cold, 1e-10)


def test_a_ridge_breaks_warm_equals_cold():
    train, cross, targets, prior = problem()
    kernel, start = torch.cat([train, cross]), torch.cat(prior)
    first = regress(train[:6, :6], kernel[:, :6], targets[:6], (start[:6], start), ridge=1.0).prediction
    warm = regress(train, cross, targets, (first[:N], first[N:]), ridge=1.0).prediction
    assert (warm - regress(train, cross, targets, prior, ridge=1.0).prediction).abs().max() > 0.01


# Leave one out


def refitted(train: Tensor, targets: Tensor, prior: Tensor, ridge: float = 0.0) -> Tensor:
    """Leave one out by as many regressions as there are points."""
    points, size, predictions = len(targets), len(train) // len(targets), []
    for i in range(points):
        rest = torch.tensor([j for j in range(points) if j != i])
        rows = (rest[:, None] * size + torch.arange(size)).flatten()
        mine = torch.arange(i * size, (i + 1) * size)
        kernels = train[rows][:, rows], train[mine][:, rows]
        refit = regress(*kernels, targets[rest], (prior[rest], prior[[i]]), ridge=ridge, jitter="none")
        predictions.append(refit.prediction)
    return torch.cat(predictions)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_leave_one_out_is_refitting(full, ridge):
    train, _, targets, prior = problem(full=full)
    got = leave_one_out(train, targets, prior[0], ridge=ridge, jitter="none")
    close(got.prediction, refitted(train, targets, prior[0], ridge))


@pytest.mark.parametrize(
    ("smallest", "jitter", "off"),
    [(0.1, "relative", 0), (0.1, "none", 0), (3e-4, "relative", 1e-2), (1e-4, "none", 1e-4)],
)
def test_leave_one_out_says_when_rounding_decides(smallest, jitter, off):
    """One eigenvalue is small, all others are 1: float32 is off where float64 is right, and the residual is silent."""
    generator = torch.Generator().manual_seed(0)
    direction = torch.linalg.qr(torch.randn(20, 20, generator=generator)).Q[:, 0]
    kernel = torch.eye(20) - (1 - smallest) * torch.outer(direction, direction)
    targets = torch.randn(20, 1, generator=generator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        right = leave_one_out(kernel.double(), targets.double(), jitter=jitter).prediction
    close(right, refitted(kernel.double(), targets.double(), 0 * targets.double()), 1e-5)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got = leave_one_out(kernel, targets, jitter=jitter)
    assert got.residual < regression.TOLERANCE
    error = (got.prediction - right).norm() / targets.norm()
    assert error > off if off else error < 1e-5
    assert ["decided by rounding" in str(w.message) for w in said] == [True] * (off > 0)
    assert all(w.filename == __file__ for w in said)


def test_leave_one_out_says_when_the_jitter_decides():
    """In float64 the jitter is far above rounding; without it the same kernel is no trouble."""
    direction = torch.nn.functional.normalize(torch.tensor([0.6, 0.8, 1e-3]).double(), dim=0)  # of eigenvalue 1e-6
    kernel = torch.eye(3) - (1 - 1e-6) * torch.outer(direction, direction)
    targets = torch.ones(3, 1).double()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        right = leave_one_out(kernel, targets, jitter="none").prediction
    with pytest.warns(RuntimeWarning, match="decided by rounding or the jitter"):
        got = leave_one_out(kernel, targets)
    assert got.residual < regression.TOLERANCE
    assert (got.prediction - right).norm() > 1e-2 * targets.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_leave_one_out_of_agreeing_duplicates_is_no_matter(dtype):
    """The condition is as bad as can be, the other copy's label known all the same."""
    train, _, targets = (t.to(dtype) for t in duplicated((2.0, 2.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = leave_one_out(train, targets)
    close(got.prediction[:2], targets[:2], 1e-4)
    assert got.condition * got.jitter > 0.1 * train.diagonal().mean()


@pytest.mark.parametrize("full", [False, True])
def test_leave_one_out_judges_its_derivative(full, monkeypatch):
    """What is judged is the change of the predictions with the diagonal, here by a difference quotient."""
    train, _, targets, prior = problem(full=full)
    at = lambda ridge: leave_one_out(train, targets, prior[0], ridge=ridge, jitter="none").prediction  # noqa: E731
    slope = (at(1.001) - at(0.999)) / 0.002
    judged = []
    monkeypatch.setattr(regression, "_judge", lambda *arguments, stacklevel: judged.append(arguments) or 0.0)
    at(1.0)
    moved, _, says, d, _ = judged[-1]
    assert says is regression.UNSURE
    close(-moved.reshape(targets.shape) / d, slope, 1e-5)  # `moved` is y - f


# Gradient flow


@pytest.mark.parametrize("full", [False, True])
def test_gradient_flow_is_the_matrix_exponential(full):
    train, cross, targets, prior = problem(full=full)
    times = [0.0, 0.1, 3.0, 40.0]
    got = gradient_flow(train, cross, targets, times, prior)
    rhs = (targets - prior[0]).numpy().reshape(len(train), -1)
    for t, prediction in zip(times, got, strict=True):
        learnt = rhs - scipy.linalg.expm(-t * train.numpy() / N) @ rhs  # N points, also for a full kernel
        close(prediction, prior[1] + torch.tensor(cross.numpy() @ np.linalg.solve(train.numpy(), learnt)).reshape(M, O))
    assert torch.equal(got[0], prior[1])


def test_gradient_flow_solves_the_differential_equation():
    """Euler steps on df/dt = -K(., D) (f(D) - Y) / N; halving the step halves the error, which extrapolates to zero."""
    train, cross, targets, prior = problem()
    kernel = torch.cat([train, cross])

    def euler(steps: int) -> Tensor:
        f = torch.cat(prior)
        for _ in range(steps):
            f = f - 5.0 / steps * kernel @ (f[:N] - targets) / N
        return f[N:]

    got = gradient_flow(train, cross, targets, [5.0], prior)[0]
    coarse, fine = euler(500), euler(1000)
    assert (coarse - got).norm() / (fine - got).norm() == pytest.approx(2, rel=0.02)
    close(2 * fine - coarse, got, 1e-5)


def test_gradient_flow_ends_in_ridgeless_regression():
    train, cross, targets, prior = problem()
    got = gradient_flow(train, cross, targets, [1e6, math.inf], prior)
    end = regress(train, cross, targets, prior, jitter="none").prediction
    close(got[0], end)
    close(got[1], end)


def test_tiny_eigenvalues_keep_their_digits():
    """Directions with eigenvalues 1e-12, 1e-18 and 0 move at the full pace t / n: not by 0 / 0, nor by an inverse."""
    train = torch.diag(torch.tensor([1.0, 1e-12, 1e-18, 0.0], dtype=torch.float64))
    cross = torch.ones(1, 4).double()
    targets = torch.tensor([[0.0], [1.0], [3.0], [5.0]]).double()
    assert gradient_flow(train, cross, targets, [100.0]).item() == pytest.approx(9 * 100 / 4, rel=1e-9)


def test_targets_that_are_never_learnt_are_said():
    """Conflicting duplicates at long times only: the difference of the labels is unlearnt; agreeing ones never."""
    train, cross, targets = duplicated((1.0, 3.0))
    agreeing = duplicated((2.0, 2.0))[2]
    learn = lambda y, t: gradient_flow(train, cross, y, [0.0, t])[1].item()  # noqa: E731
    share = math.sqrt(2) / targets.norm().item()
    for long in (math.inf, 1e20):
        with pytest.warns(RuntimeWarning, match=f"share {share:.2g} .* 1 of 4 directions") as said:
            assert learn(targets, long) == pytest.approx(2.0, abs=1e-6)  # their mean
        assert [w.filename for w in said] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            learn(targets, 10.0)
            learn(agreeing, 10.0)
            assert learn(agreeing, long) == pytest.approx(2.0, abs=1e-6)


def test_flow_of_an_indefinite_kernel_is_refused():
    _, cross, targets, _ = problem()
    with pytest.raises(UserError, match="eigenvalues"):
        gradient_flow(torch.diag(torch.linspace(-0.1, 1, N).double()), cross, targets, [1.0])


# Conjugate gradients


@pytest.mark.parametrize("full", [False, True])
def test_conjugate_gradients_equal_cholesky(full):
    train, cross, targets, prior = problem(60, full=full)
    direct = regress(train, cross, targets, prior, ridge=0.2)
    got = regress_iteratively(train, cross, targets, prior, ridge=0.2, tolerance=1e-12)
    close(got.prediction, direct.prediction, 1e-9)
    assert got.jitter == pytest.approx(direct.jitter)
    assert 1 < got.iterations < 200
    missed = (train @ got.weights.reshape(len(train), -1)).reshape(60, O) + 0.2 * got.weights - (targets - prior[0])
    assert got.residual == pytest.approx((missed.norm() / (targets - prior[0]).norm()).item(), rel=1e-6)


def test_conjugate_gradients_from_a_file_and_from_a_function(tmp_path):
    """A float32 memory map read row by row; the same kernel as a function of vectors."""
    train, cross, targets, prior = problem(40)
    train = train.float().double()
    np.save(tmp_path / "train.npy", train.float().numpy())
    np.save(tmp_path / "cross.npy", cross.numpy())
    maps = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("train", "cross")]
    expected = regress_iteratively(train, cross, targets, prior, tolerance=1e-10).prediction
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        close(regress_iteratively(*maps, targets, prior, tolerance=1e-10, budget=1000).prediction, expected)
    function = regress_iteratively(
        lambda v: train @ v, lambda v: cross @ v, targets, prior, diagonal=train.diagonal(), tolerance=1e-10
    )
    close(function.prediction, expected)


def test_jacobi_preconditioner_undoes_a_bad_scaling():
    """A diagonal similarity with entries from 1e-4 to 1e4 costs iterations unless the diagonal is divided out."""
    train, _, targets, _ = problem(40, outputs=1)
    scale = torch.logspace(-4, 4, 40).double()
    bad = scale[:, None] * train * scale
    rhs = scale[:, None] * targets
    _, _, plain = regression.conjugate_gradients(lambda v: train @ v, targets, train.diagonal(), 1e-8, 400)
    x, residual, iterations = regression.conjugate_gradients(lambda v: bad @ v, rhs, bad.diagonal(), 1e-8, 400)
    assert iterations < 4 * plain
    assert residual.norm() <= 1e-8 * rhs.norm()
    assert torch.equal(residual, rhs - bad @ x)
    with pytest.raises(UserError, match="reached"):
        regression.conjugate_gradients(lambda v: bad @ v, rhs, torch.ones(40).double(), 1e-8, 4 * plain)


def test_unconverged_is_refused_with_what_was_reached():
    train, cross, targets, prior = problem(60)
    with pytest.raises(UserError, match=r"residual of 0\.\d+, not 1e-08, in 3 iterations: pass a ridge"):
        regress_iteratively(train, cross, targets, prior, tolerance=1e-8, max_iterations=3)


def test_unreachable_accuracy_is_refused():
    """The recurrence's residual goes on falling below rounding; the true one does not, and counts."""
    hilbert = torch.tensor(scipy.linalg.hilbert(12))
    with pytest.raises(UserError, match="conjugate gradients reached"):
        regress_iteratively(hilbert, hilbert, torch.ones(12, 1).double(), tolerance=1e-17)


@pytest.mark.parametrize("seed", range(10))
def test_restarts_reach_what_the_recurrence_alone_does_not(seed):
    """In float32, at condition 1e3, going on in the old direction from the true residual fails for half the seeds."""
    generator = torch.Generator().manual_seed(seed)
    basis, _ = torch.linalg.qr(torch.randn(40, 40, generator=generator))
    kernel = basis * torch.logspace(0, -3, 40) @ basis.T
    kernel, rhs = (kernel + kernel.T) / 2, torch.randn(40, 1, generator=generator)
    x, _, _ = regression.conjugate_gradients(lambda v: kernel @ v, rhs, kernel.diagonal(), 1.2e-5, 5000)
    assert (kernel.double() @ x.double() - rhs).norm() < 2.4e-5 * rhs.norm()


def test_columns_that_are_done_wait_for_the_others():
    """One zero right-hand side, one that is an eigenvector (solved in one step), one general."""
    train, cross, targets, _ = problem(20)
    train = train / (train.diagonal()[:, None] * train.diagonal()).sqrt()  # unit diagonal
    targets[:, 0] = 0
    targets[:, 1] = torch.linalg.eigh(train).eigenvectors[:, 3]
    got = regress_iteratively(train, cross, targets, tolerance=1e-11)
    close(got.prediction, regress(train, cross, targets).prediction, 1e-8)


def test_indefinite_kernel_is_refused_by_conjugate_gradients():
    _, cross, targets, _ = problem()
    with pytest.raises(UserError, match="not positive definite"):
        regress_iteratively(torch.diag(torch.linspace(-1, 2, N).double()), cross, targets)


def test_conflicting_duplicates_are_said_by_conjugate_gradients():
    train, cross, targets = duplicated((1.0, 3.0))
    with pytest.warns(RuntimeWarning, match="misses its targets"):
        got = regress_iteratively(train, cross, targets)
    assert got.prediction.item() == pytest.approx(2.0, abs=1e-3)


# What is refused

BAD = torch.tensor(math.nan).double()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda k, c, y, f: (k[:-1], c, y, f), "kernels must be"),
        (lambda k, c, y, f: (k[:0, :0], c[:, :0], y[:0], (f[0][:0], f[1])), "kernels must be"),
        (lambda k, c, y, f: (k, c[:, :-1], y, f), "kernels must be"),
        (lambda k, c, y, f: (k, c, y[:-1], f), "N or N O"),
        (lambda k, c, y, f: (k, c, y[:, 0], f), "N or N O"),
        (lambda k, c, y, f: (k, c, y.float(), f), "float32 or all float64"),
        (lambda k, c, y, f: (k.half(), c.half(), y.half(), f), "float32 or all float64"),
        (lambda k, c, y, f: (k * BAD, c, y, f), "kernel contains NaN"),
        (lambda k, c, y, f: (k, c / 0, y, f), "kernel contains NaN"),
        (lambda k, c, y, f: (k, c, y * BAD, f), "targets or prior contain NaN"),
        (lambda k, c, y, f: (k, c, y, (f[0] * BAD, f[1])), "targets or prior contain NaN"),
        (lambda k, c, y, f: (k, c, y, (f[0][:, :1], f[1])), "prior at the training points"),
        (lambda k, c, y, f: (k, c, y, (f[0], f[1][:1])), "where the predictions are"),
        (lambda k, c, y, f: (k.tril(), c, y, f), "not symmetric"),
    ],
)
@pytest.mark.parametrize(
    "solver", [regress, lambda k, c, y, f: gradient_flow(k, c, y, [1.0], f)], ids=["regress", "flow"]
)
def test_bad_input_is_refused(change, says, solver):
    with pytest.raises(UserError, match=says):
        solver(*change(*problem()))


@pytest.mark.parametrize(
    ("more", "says"),
    [({"jitter": "some"}, "one of"), ({"ridge": -1.0}, "not below 0"), ({"ridge": math.nan}, "not below 0")],
)
def test_bad_options_are_refused(more, says):
    train, cross, targets, prior = problem()
    with pytest.raises(UserError, match=says):
        regress(train, cross, targets, prior, **more)
    if "ridge" in more:
        with pytest.raises(UserError, match=says):
            regress_iteratively(train, cross, targets, prior, **more)


@pytest.mark.parametrize("times", [[-1.0], [1.0, math.nan]])
def test_bad_times_are_refused(times):
    train, cross, targets, prior = problem()
    with pytest.raises(UserError, match="times"):
        gradient_flow(train, cross, targets, times, prior)


def test_bad_input_to_conjugate_gradients_is_refused():
    train, cross, targets, _ = problem()
    for arguments, says in (
        ((lambda v: train @ v, cross, targets), "pass diagonal="),
        ((train[:, :-1], cross, targets), "does not fit|N or N O"),
        ((train, cross[:, :-1], targets), "does not fit"),
        ((train, cross, targets[:-1]), "N or N O"),
        ((train * BAD, cross, targets), "not finite"),
        ((train, cross * BAD, targets), "kernel contains NaN"),
        ((train, cross, targets * BAD), "NaN"),
    ):
        with pytest.raises(UserError, match=says):
            regress_iteratively(*arguments)
