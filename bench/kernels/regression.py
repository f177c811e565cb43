"""Kernel regression with a prior mean: what a linearised network predicts when trained on squared loss.

    f_lin(x) = f0(x) + K(x, D) K(D, D)^-1 (Y - f0(D))                                   thesis (2.11), (3.4), (3.5)

A kernel is scalar, n = N, one for all outputs (the pNTK of 3.5, an infinite-width NTK), or full, n = N O, output o of
point i at index i O + o (the eNTK of 3.4); its size tells which. Without a prior, f0 = 0.

Solved is (K + ridge I + jitter I) w = Y - f0(D). The ridge is the caller's wish; the jitter, by a rule of `JITTER`,
only lets the factorisation succeed and is no part of the question. So the `residual` reported is that of
(K + ridge I) w = Y - f0(D): it shows rounding, and a jitter that decided the answer, as it does for a singular kernel
with conflicting labels. Above `TOLERANCE` it is a warning; so is what rounding or the jitter may change in
`leave_one_out`, and what gradient flow never learns: what lies in directions that the kernel does not have.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bench.core.errors import UserError
from bench.kernels.cholesky import Factor, NotPositive

TOLERANCE = 1e-3  # on what is judged, relative to the targets: labels missed by that much do not count as interpolated
ROWS = 1024  # of a kernel that are looked at at once
BUDGET = 2**28  # bytes of kernel rows that `regress_iteratively` holds at once

NOT_FINITE = "the kernel contains NaN or infinity: look at the network's weights and inputs"

MISSES = (
    "kernel regression misses its targets: relative residual {:.2g} ({}). The kernel is singular to rounding "
    "(duplicate points with different labels?); pass a ridge to smooth on purpose"
)
UNLEARNT = (
    "a share {:.2g} of the targets is never learnt, however long one trains: it lies in {} of {} directions that, to "
    "rounding, the kernel does not have (duplicate points with different labels?). Use float64 if this is float32"
)
UNSURE = (
    "leaving one out is decided by rounding or the jitter: the predictions move by {:.2g} of the targets when the "
    "kernel's diagonal moves by both, {:.2g} (condition {:.2g}). Use float64 and less jitter, or pass a ridge"
)

Prior = tuple[Tensor, Tensor]  # f0 at the training points (N, O) and at the points to predict (M, O)
Product = Callable[[Tensor], Tensor]  # v (n, k) -> K v


class Regression(NamedTuple):
    prediction: Tensor  # (M, O)
    weights: Tensor  # K^-1 (Y - f0(D)), (N, O)
    jitter: float  # added to the diagonal beside the ridge
    residual: float  # |(K + ridge I) w - (Y - f0(D))| / |Y - f0(D)|, Frobenius
    condition: float | None = None  # 1-norm condition number of the matrix factorised, estimated from below
    iterations: int | None = None  # of conjugate gradients


def _relative(diagonal: Tensor) -> float:
    """1e-10 of the mean diagonal in float64, 1e-6 in float32: rounding of the kernel's own entries, with some room."""
    return (1e-10 if diagonal.dtype == torch.float64 else 1e-6) * diagonal.mean().item()


JITTER = {"relative": lambda kernel: _relative(kernel.diagonal()), "none": lambda kernel: 0.0}


def regress(
    train: Tensor,
    cross: Tensor,
    targets: Tensor,
    prior: Prior | None = None,
    *,
    ridge: float = 0.0,
    jitter: str = "relative",
    in_place: bool = False,
    progress: bool = False,
) -> Regression:
    """f_lin at M points, from `train` = K(D, D) (n, n), `cross` = K(x, D) (m, n), `targets` = Y (N, O); by Cholesky.

    It takes one matrix of the size of `train` beside it, or with `in_place` none: then the factor is made inside
    `train`, which is put back at the end (its lower triangle from its upper one).
    """
    check(train, cross, targets)
    rhs = _unexplained(len(train), targets, prior)  # (n, k)
    weights, factor, diagnosis = _solve(train, rhs, ridge, jitter, in_place, progress)
    if in_place:
        factor.restore()
    return Regression(_predict(cross @ weights, targets, prior), weights.reshape(targets.shape), *diagnosis)


def leave_one_out(
    train: Tensor, targets: Tensor, prior: Tensor | None = None, *, ridge: float = 0.0, jitter: str = "relative"
) -> Regression:
    """The prediction at each training point of a regression on all others, from one factorisation; `prior` is f0(D).

    y_i - f(x_i) = [K^-1]_ii^-1 w_i, with w of the regression on all points, and the part of w and the diagonal block of
    the inverse that belong to point i: O numbers and (O, O) for a full kernel, one number for a scalar one.

    A small residual does not vouch for that block. So judged is, to first order in d, by how much the predictions move
    if the diagonal of K moves by d, the jitter and rounding of the kernel: eps sqrt(n) of its mean diagonal.
    """
    check(train, train, targets)
    rhs = _unexplained(len(train), targets, None if prior is None else (prior, prior))
    weights, factor, diagnosis = _solve(train, rhs, ridge, jitter)
    points, size = len(targets), len(train) // len(targets)  # size 1, or O for a full kernel
    rows = torch.cholesky_inverse(factor.matrix.tril()).reshape(points, size, -1)  # (N, size, n)
    blocks = rows.reshape(points, size, points, size).diagonal(dim1=0, dim2=2).movedim(-1, 0)  # (N, size, size)
    missed = torch.linalg.solve(blocks, weights.reshape(points, size, -1))  # (N, size, O / size)
    d = diagnosis[0] + torch.finfo(train.dtype).eps * math.sqrt(len(train)) * train.diagonal().mean().item()
    # -dK^-1 = K^-1 d K^-1, of which the blocks and the product with Y - f0(D) are wanted
    moved = torch.linalg.solve(blocks, (rows @ rows.mT) @ (d * missed) - rows @ (d * weights))  # as `missed`
    _judge(moved, rhs, UNSURE, d, diagnosis[2], stacklevel=3)
    return Regression(targets - missed.reshape(targets.shape), weights.reshape(targets.shape), *diagnosis)


def regress_iteratively(
    train: Tensor | np.ndarray | Product,
    cross: Tensor | np.ndarray | Product,
    targets: Tensor,
    prior: Prior | None = None,
    *,
    diagonal: Tensor | None = None,
    ridge: float = 0.0,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    budget: int = BUDGET,
) -> Regression:
    """`regress` for kernels too large to factorise: conjugate gradients, with the jitter rule "relative".

    A kernel is an array, also a memory-mapped one, read a few rows at a time in the precision of `targets`; or a
    function v -> K v, and then `diagonal` = K_ii (n,) must come with it. Each iteration reads the kernel once.
    """
    if diagonal is None and callable(train):
        raise UserError("a kernel given as a function does not show its diagonal: pass diagonal=")
    _check_ridge(ridge)
    diagonal = _tensor(train.diagonal() if diagonal is None else diagonal).to(targets)
    rhs = _unexplained(len(diagonal), targets, prior)  # (n, k)
    product, jitter = _product(train, budget), _relative(diagonal)
    shift = ridge + jitter
    weights, unsolved, iterations = conjugate_gradients(
        lambda v: product(v) + shift * v, rhs, diagonal + shift, tolerance, max_iterations
    )
    residual = _judge(unsolved + jitter * weights, rhs, MISSES, f"jitter {jitter:.2g}", stacklevel=3)
    prediction = _predict(_product(cross, budget)(weights), targets, prior)
    return Regression(prediction, weights.reshape(targets.shape), jitter, residual, iterations=iterations)


def conjugate_gradients(
    product: Product, rhs: Tensor, diagonal: Tensor, tolerance: float, max_iterations: int
) -> tuple[Tensor, Tensor, int]:
    """Solve A x = b for every column of b = `rhs` (n, k), preconditioned by the diagonal of A.

    Returns x, the true residual b - A x, at most `tolerance` |b| in every column, and the iterations; or refuses.
    """
    goal = tolerance * rhs.norm(dim=0)  # (k,)
    x, r, p, rz = torch.zeros_like(rhs), rhs, torch.zeros_like(rhs), torch.zeros_like(goal)
    for iteration in range(1, max_iterations + 1):
        z = r / diagonal[:, None]
        rz, previous = (r * z).sum(0), rz
        p = z + torch.where(previous > 0, rz / previous, 0) * p
        ap = product(p)
        curvature = (p * ap).sum(0)
        if not (curvature >= 0).all():
            raise UserError("the kernel is not positive definite, or not finite: look at it, or pass a ridge")
        step = torch.where(curvature > 0, rz / curvature, 0)  # 0 where a column is solved exactly
        x, r = x + step * p, r - step * ap
        if (r.norm(dim=0) <= goal).all():
            r = rhs - product(x)  # the recurrence drifts from the true residual
            if (r.norm(dim=0) <= goal).all():
                return x, r, iteration
            p = torch.zeros_like(rhs)  # go on from x, with a fresh search direction
    reached = ((rhs - product(x)).norm() / rhs.norm()).item()
    raise UserError(
        f"conjugate gradients reached a relative residual of {reached:.2g}, not {tolerance:.2g}, in {max_iterations} "
        "iterations: pass a ridge, a larger tolerance or max_iterations, or solve in float64"
    )


def gradient_flow(
    train: Tensor, cross: Tensor, targets: Tensor, times: Sequence[float], prior: Prior | None = None
) -> Tensor:
    """Predictions at each time t of gradient flow on (1/N) sum_i 1/2 |f(x_i) - y_i|^2; (times, M, O).

        f_t(x) = f0(x) + K(x, D) K^-1 (I - exp(-t K / N)) (Y - f0(D))                                          lecture

    Thesis (2.5) and Jacot et al. write exp(-t K), for the sum instead of the mean over points: their t is this t / N.
    At t = inf this is ridgeless regression, by the pseudo-inverse where K is singular; targets that this leaves
    unlearnt are a warning.

    An eigenvalue below rounding counts as 0, and once rounding decides whether its direction has been learnt the
    direction is left out: K(x, D) has no component along it if K is positive semi-definite on all points.
    """
    if not all(t >= 0 for t in times):
        raise UserError(f"times must be numbers not below 0, got {list(times)}")
    check(train, cross, targets)
    rhs = _unexplained(len(train), targets, prior)  # (n, k)
    eigs, vectors = torch.linalg.eigh(train)
    eps, largest = torch.finfo(train.dtype).eps, eigs.abs().max()
    if eigs[0] < -math.sqrt(eps) * largest:
        raise UserError(f"not a kernel: its eigenvalues go from {eigs[0]:.3g} to {eigs[-1]:.3g}; none may be negative")
    floor, pace = len(eigs) * eps * largest, targets.new_tensor(times)[:, None] / len(targets)  # pace (times, 1)
    learnt = -torch.expm1(-pace * eigs) / eigs  # tends to `pace` as an eigenvalue to 0
    gain = torch.where(eigs > floor, learnt, torch.where(pace * floor < 1, pace, 0))  # (times, n)
    inner, outer = vectors.mT @ rhs, cross @ vectors  # (n, k), (m, n)
    if not (pace * floor < 1).all():
        dropped = inner[eigs <= floor]
        _judge(dropped, rhs, UNLEARNT, len(dropped), len(eigs), stacklevel=3)
    return torch.stack([_predict(outer @ (g[:, None] * inner), targets, prior) for g in gain])


def _solve(
    train: Tensor, rhs: Tensor, ridge: float, jitter: str, in_place: bool = False, progress: bool = False
) -> tuple[Tensor, Factor, tuple[float, float, float]]:
    """Weights (n, k), the factor, and (jitter, residual, condition)."""
    if jitter not in JITTER:
        raise UserError(f"jitter {jitter!r} must be one of {sorted(JITTER)}")
    _check_ridge(ridge)
    added = JITTER[jitter](train)
    try:
        factor = Factor(train if in_place else train.clone(), ridge + added, progress=progress)
    except NotPositive as failed:
        raise UserError(
            f"the kernel is not positive definite, with jitter {added:.2g} and ridge {ridge:.2g}: row {failed.row} is, "
            "to rounding, a combination of those before it. Drop duplicates, use float64, or pass a ridge"
        ) from None
    weights = factor.solve(rhs)  # (n, k)
    condition = condition_number(factor.norm(), factor.solve, train.diagonal())
    means = f"jitter {added:.2g}, condition {condition:.2g}"
    residual = _judge(factor.product(weights) + ridge * weights - rhs, rhs, MISSES, means, stacklevel=4)
    return weights, factor, (added, residual, condition)


def _check_ridge(ridge: float) -> None:
    if not 0 <= ridge < math.inf:
        raise UserError(f"ridge {ridge} must be a number not below 0")


def condition_number(norm: Tensor, solve: Callable[[Tensor], Tensor], like: Tensor) -> float:
    """|A|_1 |A^-1|_1, from |A|_1 and b -> A^-1 b; the second by Hager's ascent of |A^-1 x|_1 over |x|_1 = 1 (Higham
    1988), never above the truth. `like` (n,) has A's size and dtype.

    Two starts, the constant vector and LAPACK's alternating one: the first alone is blind to a pair of duplicates.
    """
    i = torch.arange(len(like), device=like.device, dtype=like.dtype)
    x = torch.stack([torch.ones_like(i), (1 - 2 * (i % 2)) * (1 + i / len(i))], 1)  # (n, 2)
    x, best = x / x.abs().sum(0), x.new_zeros(())
    for _ in range(5):  # as LAPACK; two are usually enough
        y = solve(x)
        best = torch.maximum(best, y.abs().sum(0).max())
        slope = solve(torch.where(y < 0, -torch.ones_like(y), 1))
        x = torch.zeros_like(x).scatter_(0, slope.abs().argmax(0, keepdim=True), 1)
    return (best * norm).item()


def _judge(missed: Tensor, rhs: Tensor, says: str, *means: object, stacklevel: int) -> float:
    """|missed| / |rhs|; if it is large, a warning that `says` so, to the caller of this module."""
    share = (missed.norm() / rhs.norm().clamp(min=torch.finfo(rhs.dtype).tiny)).item()
    if not share <= TOLERANCE:
        warnings.warn(says.format(share, *means), RuntimeWarning, stacklevel=stacklevel)
    return share


def _tensor(array: Tensor | np.ndarray) -> Tensor:
    return array if isinstance(array, Tensor) else torch.tensor(array)  # a copy: memory maps may be read-only


def _product(kernel: Tensor | np.ndarray | Product, budget: int) -> Product:
    if callable(kernel):
        return kernel

    def product(v: Tensor) -> Tensor:
        if kernel.ndim != 2 or kernel.shape[1] != len(v):
            raise UserError(f"a kernel of shape {tuple(kernel.shape)} does not fit {len(v)} weights")
        rows = max(1, budget // (kernel.shape[1] * v.element_size()))
        blocks = (kernel[i : i + rows] for i in range(0, len(kernel), rows))
        return torch.cat([_tensor(b).to(v) @ v for b in blocks])

    return product


def _unexplained(size: int, targets: Tensor, prior: Prior | None) -> Tensor:
    """Y - f0(D) as a kernel of that size wants it: (N, O), or (N O, 1)."""
    if targets.dim() != 2 or size not in (len(targets), targets.numel()):
        raise UserError(
            f"the kernel is {size} square; with targets {tuple(targets.shape)}, (N, O), it must be N or N O"
        )
    if prior is not None and prior[0].shape != targets.shape:
        raise UserError(f"the prior at the training points is {tuple(prior[0].shape)}, not {tuple(targets.shape)}")
    rhs = targets if prior is None else targets - prior[0]
    if not torch.isfinite(rhs).all():
        raise UserError("targets or prior contain NaN or infinity")
    return rhs.reshape(size, -1)


def _predict(values: Tensor, targets: Tensor, prior: Prior | None) -> Tensor:
    """f0(x) + K(x, D) w, the second given as (M, O) or (M O, 1); (M, O)."""
    values = values.reshape(-1, targets.shape[1])
    if not torch.isfinite(values).all():  # the training kernel has been looked at already
        raise UserError(f"between the points to predict and the training points, {NOT_FINITE}")
    if prior is not None and prior[1].shape != values.shape:
        raise UserError(f"the prior is {tuple(prior[1].shape)} where the predictions are {tuple(values.shape)}")
    return values if prior is None else prior[1] + values


def check(train: Tensor, cross: Tensor, targets: Tensor) -> None:
    """Refuse what cannot be K(D, D), K(x, D) and Y."""
    n = len(train)
    if not n or train.shape != (n, n) or cross.dim() != 2 or cross.shape[1] != n:
        raise UserError(f"kernels must be (n, n) and (m, n), got {tuple(train.shape)} and {tuple(cross.shape)}")
    if len({train.dtype, cross.dtype, targets.dtype}) > 1 or train.dtype not in (torch.float32, torch.float64):
        raise UserError("kernels and targets must all be float32 or all float64")
    largest, apart = 0.0, 0.0
    for i in range(0, n, ROWS):  # a few rows at a time: no second matrix
        rows = train[i : i + ROWS]
        low, high = rows.min().item(), rows.max().item()
        if not (math.isfinite(low) and math.isfinite(high)):
            raise UserError(NOT_FINITE)
        largest = max(largest, -low, high)
        apart = max(apart, (rows - train[:, i : i + ROWS].mT).abs().max().item())
    if apart > math.sqrt(torch.finfo(train.dtype).eps) * largest:
        raise UserError("the kernel of the training points with themselves is not symmetric: is it K(D, D)?")
