"""Eigenvalues at the ends of a kernel's spectrum, from products and solves alone: Lanczos, and Lanczos on the inverse.

The largest eigenvalue comes from products K v. The smallest comes as the inverse of the largest of K^-1, from solves
with a factor that a regression needs anyhow; ten or so are enough, where a dense solver would take the time of twenty
factorisations. Vectors are kept and orthogonalised again at every step: there are few.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bench.kernels.cholesky import Factor

STEPS = 200  # at most; the largest eigenvalue of a kernel, far from the others, takes some ten
FEW_EPS = 8  # error of an entry of a kernel, in eps of its size: sums of thousands of products
ROWS = 256  # of a kernel that are looked at at once
TOLERANCE = 1e-10  # relative change of the eigenvalue between two steps


def largest(product: Callable[[Tensor], Tensor], like: Tensor, tolerance: float = TOLERANCE) -> float:
    """The largest eigenvalue of a positive semi-definite A, given v (n, 1) -> A v; `like` (n,) has its dtype."""
    n = len(like)
    start = torch.randn(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)  # any will do
    q = (start / start.norm()).to(like)  # (n,)
    basis, alphas, betas, value = [q], [], [], 0.0
    for _ in range(min(STEPS, n)):
        r = product(q[:, None])[:, 0]
        alphas.append(float(r @ q))
        for _ in range(2):  # twice is enough
            held = torch.stack(basis, 1)  # (n, steps)
            r = r - held @ (held.mT @ r)
        beta = float(r.norm())
        tridiagonal = torch.diag(torch.tensor(alphas, dtype=torch.float64))
        off = torch.tensor(betas, dtype=torch.float64)
        tridiagonal = tridiagonal + torch.diag(off, 1) + torch.diag(off, -1)
        before, value = value, float(torch.linalg.eigvalsh(tridiagonal)[-1])
        if abs(value - before) <= tolerance * abs(value) or beta <= torch.finfo(like.dtype).eps * abs(value):
            break
        betas.append(beta)
        q = r / beta
        basis.append(q)
    return value


def ends(factor: Factor, tolerance: float = TOLERANCE) -> tuple[float, float]:
    """lambda_min and lambda_max of K, from the factor of K + shift I.

    A lambda_min below `noise` is not resolved.
    """
    most = largest(factor.product, factor.diagonal, tolerance)
    least = 1 / largest(factor.solve, factor.diagonal, tolerance) - factor.shift
    return least, most


def noise(kernel: Tensor) -> float:
    """What rounding makes of a zero eigenvalue of a kernel (n, n) that was computed in its own dtype.

    Entries that are off by a few eps of their size, as if at random, move eigenvalues by 2 sqrt(n) of that error; the
    size is the root mean square of the entries, |K|_F / n. A smallest eigenvalue below this is not resolved.
    """
    squares = sum(rows.double().square().sum().item() for rows in kernel.split(ROWS))  # never all of it in float64
    return 2 * FEW_EPS * torch.finfo(kernel.dtype).eps * math.sqrt(squares / len(kernel))
