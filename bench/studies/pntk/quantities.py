"""What the figures of thesis chapter 3 compare: the eNTK T = Theta(D, D), (N O) x (N O), and the pNTK P, N x N.

    magnitudes    on- and off-diagonal elements of Theta(x, x')                    figs 3.2, A.5
    frobenius     T against P kron I_O, of all pairs together and pair by pair     figs 3.3, A.6; theorem 3.3.1
    pointwise     the largest eigenvalue of Theta(x, x), an O x O matrix           theorem 3.3.4
    Solved        both ends of the spectrum and weights, from one factorisation    figs 3.4 to 3.8
    apart         |a - b|_F / |b|_F                                                figs 3.7, 3.13, A.8

A float32 norm of 10^7 numbers is off by 1e-3, so every sum here is a float64 one, taken over a few points at a time.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from bench.kernels.cholesky import Factor, NotPositive
from bench.kernels.spectrum import ends, noise

POINTS = 16  # whose rows of T are looked at at once
JITTER, GROWTH, MOST = 1e-12, 100, 1e-2  # of the mean diagonal: at first, from try to try, at most


def compare(theta: Tensor, pseudo: Tensor) -> dict[str, float]:
    """Every quantity that needs no solve, from T (N O, N O) and P (N, N)."""
    n, o = len(pseudo), len(theta) // len(pseudo)
    sums, ratios = torch.zeros(7, dtype=torch.float64, device=theta.device), []
    for start, blocks in _blocks(theta, n, o):  # (b, O, N, O)
        p = pseudo[start : start + len(blocks)].double()  # (b, N)
        diagonal = blocks.diagonal(dim1=1, dim2=3)  # (b, N, O)
        trace, total = diagonal.sum(2), blocks.sum((1, 3))  # (b, N)
        on, every = diagonal.abs().sum(), blocks.abs().sum()
        squares = blocks.square().sum((1, 3))  # (b, N), |Theta(x, x')|_F^2
        missed = (squares - 2 * p * trace + o * p.square()).clamp(min=0)  # |P I - Theta(x, x')|_F^2
        ratios.append((missed / squares.clamp(min=torch.finfo(torch.float64).tiny)).sqrt())
        off = (total - trace).abs().sum()
        rounding = (total / o - p).square().sum()
        sums += torch.stack([on, every - on, trace.abs().sum(), off, squares.sum(), missed.sum(), rounding])
    on, off, on_sum, off_sum, squared, missed, rounding = (float(each) for each in sums)
    norm, of_pseudo = math.sqrt(squared), math.sqrt(o) * float(torch.linalg.vector_norm(pseudo, dtype=torch.float64))
    pairs = torch.cat(ratios)  # (N, N)
    apart = pairs[~torch.eye(n, dtype=torch.bool, device=pairs.device)] if n > 1 else pairs
    return {
        "on_diagonal": on / n**2,  # sum_i |Theta_ii|, averaged over pairs
        "off_diagonal": off / n**2,  # sum_{i != j} |Theta_ij|
        "on_diagonal_sum": on_sum / n**2,  # the other reading: |sum_i Theta_ii|
        "off_diagonal_sum": off_sum / n**2,
        "theta_norm": norm,
        "pseudo_norm": of_pseudo,  # |P kron I_O|_F
        "frobenius": math.sqrt(missed) / norm,  # (3.3) of the whole matrices
        "frobenius_of_norms": abs(of_pseudo - norm) / norm,  # the caption's other reading
        "frobenius_per_pair": float(apart.mean()),  # (3.3) of a pair of inputs, x != x'; theorem 3.3.1
        "frobenius_per_point": float(pairs.diagonal().mean()),  # and of x with itself
        "identity": math.sqrt(rounding * o) / of_pseudo,  # P = (sum of entries of Theta) / O holds up to this
        **_pointwise(theta, pseudo, n, o),
    }


def _blocks(theta: Tensor, n: int, o: int) -> Iterator[tuple[int, Tensor]]:
    for start in range(0, n, POINTS):
        rows = theta[start * o : (start + POINTS) * o].double()
        yield start, rows.view(-1, o, n, o)


def _pointwise(theta: Tensor, pseudo: Tensor, n: int, o: int) -> dict[str, float]:
    """Theorem 3.3.4 is about a fixed pair; of Theta(x, x), which is symmetric, an eigenvalue is surely meant."""
    own = theta.view(n, o, n, o).diagonal(dim1=0, dim2=2).movedim(-1, 0).double()  # (N, O, O)
    most, p = torch.linalg.eigvalsh(own)[:, -1], pseudo.diagonal().double()  # (N,)
    return {"lambda_max_per_point": float(((most - p).abs() / most).mean())}


class Solved(NamedTuple):
    """A kernel's spectrum and its weights K^-1 b, by one factorisation."""

    weights: Tensor  # (n, k), float64
    lambda_max: float
    lambda_min: float
    resolved: bool  # whether lambda_min is above what rounding makes of zero
    jitter: float  # added to the diagonal, the least of a ladder with which the factorisation succeeds
    residual: float  # |K w - b| / |b|


def solve(kernel: Tensor, rhs: Tensor) -> Solved:
    """(n, n) and (n, k). The kernel was made in the precision it comes in; all algebra is float64."""
    mean, floor = float(kernel.diagonal().double().mean()), noise(kernel)
    matrix, rhs = kernel.double(), rhs.double()  # a kernel that is float64 already is overwritten
    jitter = JITTER
    while True:
        try:
            factor = Factor(matrix, jitter * mean)
            break
        except NotPositive:
            jitter *= GROWTH
            if jitter > MOST:
                raise
    least, most = ends(factor)
    weights = factor.solve(rhs)
    residual = (factor.product(weights) - rhs).norm() / rhs.norm()
    return Solved(weights, most, least, least > floor, jitter * mean, float(residual))


def apart(a: Tensor, b: Tensor) -> float:
    """|a - b|_F / |b|_F."""
    return float((a.double() - b.double()).norm() / b.double().norm())


def relative(a: float, b: float) -> float | None:
    """|a - b| / |b|; None where there is no such number."""
    return abs(a - b) / abs(b) if b else None
