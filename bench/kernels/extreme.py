"""The best of m batches by the smallest eigenvalue of K on labelled + batch, exactly (NPC (3) and Algorithm 1).

    best = of_kernel(kernel, labelled, batches)        lambda_min(K), K given on all points
    best = of_features(features, labelled, batches)    the min(N, d)-th largest eigenvalue of K = F F^T
    best = log_determinant(features, labelled, batches)

lambda_min(K) > s exactly if K - s I has a Cholesky factor (inertia). So the eigenvalues of a few batches give an s,
a factorisation of each of the others rejects all but those that are better, and so on: four rounds for 1,000 batches,
some 30 eigenvalue problems. The labelled block comes first in every factor, so it is factorised once a round, and only
the Schur complement of a batch, Q x Q, is left to do. A block-wise factor is as stable as any: what it decides is right
for a matrix within rounding of K, the promise of a dense eigenvalue solver.

With more points than features, N > d, F F^T has d eigenvalues that are not zero by construction, and they are those of
F^T F (d x d), whatever N. The smallest is the smallest non-zero eigenvalue of K.

Points are the rows 0 .. n - 1 of features or kernel, labelled ones first; batches are positions, (m, Q).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.core.errors import UserError

FEW = 8  # batches of a round whose eigenvalues are computed; a ninth of the others is expected to be better than all
ENTRIES = 2**18  # float64 numbers in an array of a chunk: 2 MB, what caches hold
RIDGE = 1e-6  # of the mean of K's diagonal: makes a log-determinant of a singular K, far below what a batch adds


@dataclass(frozen=True)
class Best:
    batch: int  # which one; the first of those that rounding cannot tell apart
    score: float
    tied: int  # batches that rounding cannot tell from the best, itself included
    noise: float  # what rounding makes of a zero eigenvalue; a score below it says nothing


Positions = Tensor  # (k,), of batches
Eigenvalues = Callable[[Positions], Tensor]  # (k,) -> (k, n), ascending
Exceeds = Callable[[Positions, float], Tensor]  # (k,), s -> (k,): is the smallest eigenvalue larger than s?


def of_kernel(kernel: Tensor, labelled: int, batches: Tensor) -> Best:
    """The batch with the largest lambda_min of K on labelled + batch; `kernel` is (n, n)."""
    _check(len(kernel), labelled, batches)
    if not torch.isfinite(kernel.sum()):
        raise UserError("the kernel contains NaN or infinity: the network has diverged")
    kernel = kernel.double()

    flat = kernel.reshape(-1)

    def inner(points: Tensor) -> Tensor:
        entries = points[:, :, None] * len(kernel) + points[:, None, :]  # (b, N, N)
        return flat.index_select(0, entries.reshape(-1)).view_as(entries)  # twice as fast as two indices

    return _by_schur(inner, kernel[:, :labelled], labelled, batches.to(kernel.device))


def of_features(features: Tensor, labelled: int, batches: Tensor) -> Best:
    """The batch with the largest min(N, d)-th largest eigenvalue of K = F F^T; `features` is (n, d), N = L + Q."""
    _check(len(features), labelled, batches)
    _finite(features)
    features, batches = features.double(), batches.to(features.device)
    if labelled + batches.shape[1] > features.shape[1]:
        return _by_second_moments(features, labelled, batches)

    def inner(points: Tensor) -> Tensor:
        chosen = features[points]  # (b, N, d)
        return chosen @ chosen.mT

    return _by_schur(inner, features @ features[:labelled].mT, labelled, batches)


def log_determinant(features: Tensor, labelled: int, batches: Tensor) -> Best:
    """The batch with the largest log det(K + eps I), eps = RIDGE x mean of the diagonal of K = F F^T on all points.

    With A = F_L^T F_L + eps I and Q x Q determinants alone: N log eps + log det(A / eps) + log det(I + F_B A^-1 F_B^T).
    """
    _check(len(features), labelled, batches)
    _finite(features)
    features, batches = features.double(), batches.to(features.device)
    known, ridge = features[:labelled], RIDGE * features.square().sum(1).mean()
    moments = known.mT @ known / ridge  # (d, d)
    root = torch.linalg.cholesky(moments + _eye(len(moments), moments))
    points = torch.linalg.solve_triangular(root, features.mT, upper=False).mT / ridge.sqrt()  # F A^-1/2, (n, d)
    always = (labelled + batches.shape[1]) * ridge.log() + _log_det(root)
    one = _eye(batches.shape[1], points)
    scores = torch.cat(  # (m,)
        [
            _log_det(torch.linalg.cholesky(torch.baddbmm(one, points[part], points[part].mT)))
            for part in _chunks(batches, points.shape[1])
        ]
    )
    score, noise = float(scores.max()), float(torch.finfo(scores.dtype).eps * len(root) / RIDGE)
    tied = (scores >= score - noise).nonzero()[:, 0]  # in order
    return Best(int(tied[0]), float(always) + score, len(tied), noise)


def span(features: Tensor) -> Tensor:
    """The same Gram matrix from as few features as there are independent ones: (n, d) -> (n, rank), float64.

    Units that are zero on all points, or copies of others, would make the d-th eigenvalue zero for every batch.
    """
    _finite(features)
    features = features.double()
    values, vectors = torch.linalg.eigh(features.mT @ features)  # ascending
    return features @ vectors[:, values > _noise(values)]


def _by_schur(inner: Callable[[Tensor], Tensor], cross: Tensor, labelled: int, batches: Tensor) -> Best:
    """`inner` gives K(B, B) (b, N, N) of sets of points B (b, N); `cross` is K(all points, L), (n, L)."""
    known = torch.arange(labelled, device=batches.device)
    own = cross[:labelled]  # (L, L)

    def eigenvalues(which: Positions) -> Tensor:
        return torch.linalg.eigvalsh(inner(torch.cat([known.expand(len(which), -1), batches[which]], 1)))

    def exceeds(which: Positions, s: float) -> Tensor:
        root, failed = torch.linalg.cholesky_ex(own - s * _eye(labelled, own))
        if failed:  # lambda_min(K) <= lambda_min(K(L, L)) <= s for every batch
            return torch.zeros_like(which, dtype=torch.bool)
        points, places = batches[which].unique(return_inverse=True)
        solved = torch.linalg.solve_triangular(root, cross[points].mT, upper=False).mT.contiguous()  # (points, L)
        found = []
        for part, place in zip(_chunks(batches[which], labelled), _chunks(places, labelled), strict=True):
            half = solved[place]  # (b, Q, L)
            found.append(_positive(torch.baddbmm(inner(part), half, half.mT, alpha=-1), s))  # Schur complements
        return torch.cat(found)

    return _race(len(batches), eigenvalues, exceeds, batches.device)


def _by_second_moments(features: Tensor, labelled: int, batches: Tensor) -> Best:
    own = features[:labelled].mT @ features[:labelled]  # F_L^T F_L, (d, d)

    def moments(which: Tensor) -> Tensor:
        chosen = features[which]  # (b, Q, d)
        return torch.baddbmm(own, chosen.mT, chosen)  # (b, d, d)

    def exceeds(which: Positions, s: float) -> Tensor:
        return torch.cat([_positive(moments(part), s) for part in _chunks(batches[which], len(own))])

    return _race(len(batches), lambda which: torch.linalg.eigvalsh(moments(batches[which])), exceeds, batches.device)


def _race(count: int, eigenvalues: Eigenvalues, exceeds: Exceeds, device: torch.device) -> Best:
    left = torch.arange(count, device=device)
    seen, scores, rejected = [], [], []
    score, noise = -torch.inf, 0.0
    while len(left):
        sample, left = left[:FEW], left[FEW:]
        values = eigenvalues(sample)  # (k, n)
        seen.append(sample)
        scores.append(values[:, 0])
        if float(values[:, 0].max()) > score:
            best = values[values[:, 0].argmax()]
            score, noise = float(best[0]), _noise(best)
        better = exceeds(left, score)
        rejected.append((score, left[~better]))
        left = left[better]
    # A batch rejected at s has at most that score: it can tie only if s was already within rounding of the best
    close = torch.cat([which for s, which in rejected if s > score - noise])
    ties = torch.cat([torch.cat(seen)[torch.cat(scores) >= score - noise], close[exceeds(close, score - noise)]])
    return Best(int(ties.min()), score, len(ties), noise)


def _noise(eigenvalues: Tensor) -> float:
    """n eps lambda_max, below which numpy and torch call an eigenvalue zero when they count a rank."""
    if not len(eigenvalues):
        return 0.0
    return float(len(eigenvalues) * torch.finfo(eigenvalues.dtype).eps * eigenvalues[-1])


def _positive(matrices: Tensor, s: float) -> Tensor:
    """(b,): is M - s I positive definite? `matrices` (b, n, n) are overwritten."""
    matrices.diagonal(dim1=1, dim2=2).sub_(s)
    return torch.linalg.cholesky_ex(matrices).info == 0


def _log_det(root: Tensor) -> Tensor:
    return 2 * root.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _eye(size: int, like: Tensor) -> Tensor:
    return torch.eye(size, dtype=like.dtype, device=like.device)


def _chunks(batches: Tensor, width: int) -> tuple[Tensor, ...]:
    """Batches (m, Q) in pieces, for arrays of Q or `width` rows and columns each."""
    return batches.split(max(1, ENTRIES // (batches.shape[1] * max(batches.shape[1], width))))


def _check(points: int, labelled: int, batches: Tensor) -> None:
    if batches.ndim != 2 or 0 in batches.shape:
        raise UserError(f"batches are (m, Q), both at least 1; found {tuple(batches.shape)}: draw at least one batch")
    if batches.shape[1] > points - labelled:
        raise UserError(f"batches of {batches.shape[1]} from a pool of {points - labelled}: ask for fewer labels")
    if not (labelled <= int(batches.min()) and int(batches.max()) < points):
        raise UserError(f"batches hold positions {labelled} to {points - 1}; found {batches.min()} to {batches.max()}")


def _finite(features: Tensor) -> None:
    if bad := int((~torch.isfinite(features).all(1)).sum()):
        raise UserError(f"features of {bad} of {len(features)} points are not finite: the network has diverged")
    if not features.any():
        raise UserError("the features of all points are zero: there is nothing to choose by")
