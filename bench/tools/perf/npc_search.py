"""NPC's search for the best of many batches, beside the smallest eigenvalue of every batch by general solvers.

With N > d points, solvers work on F^T F (d x d), whose smallest eigenvalue is the d-th largest of F F^T. The general
way, the eigenvalues of F F^T (N x N), is timed, too.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse.linalg
import torch
from torch import Tensor

from bench.core.errors import UserError
from bench.core.seeds import stream, torch_stream
from bench.kernels import extreme
from bench.tools.perf import quiet

OURS = "of_features"
FEATURES, POOL, BATCHES = 128, 10000, 1000  # d, images to choose from, batches to choose from
NUMBERS = 2**25  # entries of all matrices of a solver, at most: this decides on how many batches it is timed
CHUNK = 2**22  # of those that are made at once
ITERATED = 20  # batches on which iterative solvers are timed
ITERATIONS, TOLERANCE = 500, 1e-3  # of theirs; loose, which is in their favour: how far scores are off is reported
SAME = 1e-8  # relative difference of scores by dense solvers


@dataclass(frozen=True)
class Search:
    points: int  # N, labelled ones and a batch
    bought: int  # Q, of them
    threads: int = 1
    group: str = "npc"


def inputs(case: Search) -> tuple[Tensor, Tensor]:
    """Features as after a ReLU, with a 1 for the bias, (n, d); positions (m, Q)."""
    labelled, draw = case.points - case.bought, stream(0, "batches")
    h = torch.randn(labelled + POOL, FEATURES - 1, generator=torch_stream(0, "features"), dtype=torch.double).relu()
    chosen = np.stack([draw.choice(POOL, case.bought, replace=False) for _ in range(BATCHES)])
    return torch.nn.functional.pad(h, (0, 1), value=1.0), labelled + torch.from_numpy(chosen)


def _matrices(features: Tensor, labelled: int, batches: Tensor, outer: bool) -> Iterator[Tensor]:
    """F F^T (b, N, N) if `outer`, else F^T F (b, d, d), of some batches at a time."""
    side = labelled + batches.shape[1] if outer else features.shape[1]
    known = torch.arange(labelled)
    for part in batches.split(max(1, CHUNK // side**2)):
        chosen = features[torch.cat([known.expand(len(part), -1), part], 1)]  # (b, N, d)
        yield chosen @ chosen.mT if outer else chosen.mT @ chosen


def eigvalsh(features: Tensor, labelled: int, batches: Tensor, outer: bool) -> Tensor:
    """The min(N, d)-th largest eigenvalue of every batch, (m,)."""
    side = labelled + batches.shape[1]
    place = max(0, side - features.shape[1]) if outer else 0
    return torch.cat([torch.linalg.eigvalsh(each)[:, place] for each in _matrices(features, labelled, batches, outer)])


def iterated(solve: Callable[[Tensor, Tensor], float], features: Tensor, labelled: int, batches: Tensor) -> Tensor:
    """The same by an iterative solver, batch by batch, each from the same start."""
    outer = labelled + batches.shape[1] <= features.shape[1]
    found = []
    for each in _matrices(features, labelled, batches, outer):
        start = torch.randn(each.shape[1], 1, generator=torch_stream(0, "start"), dtype=each.dtype)
        found += [solve(matrix, start) for matrix in each]
    return torch.tensor(found, dtype=features.dtype)


def scipy_lobpcg(matrix: Tensor, start: Tensor) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it stopped before the tolerance: errors of scores are reported
        options = {"largest": False, "tol": TOLERANCE, "maxiter": ITERATIONS}
        return float(scipy.sparse.linalg.lobpcg(matrix.numpy(), start.numpy(), **options)[0][0])


def torch_lobpcg(matrix: Tensor, start: Tensor) -> float:
    return float(torch.lobpcg(matrix, X=start, largest=False, tol=TOLERANCE, niter=ITERATIONS)[0][0])


def solvers(case: Search) -> dict[str, Callable[[Tensor, int, Tensor], Tensor]]:
    """Name -> features, labelled, batches to the scores of batches (m,)."""
    found = {"eigvalsh": partial(eigvalsh, outer=True)}
    if case.points > FEATURES:
        found["eigvalsh, d x d"] = partial(eigvalsh, outer=False)
    return found | {"scipy lobpcg": partial(iterated, scipy_lobpcg), "torch lobpcg": partial(iterated, torch_lobpcg)}


def turn(case: Search) -> dict[str, dict]:
    """Times for all batches, extrapolated from some for peers; and by which share a score is off, at most.

    Ours has to find the very batch of the dense solvers, on as many batches as they were given.
    """
    features, batches = inputs(case)
    labelled, m = case.points - case.bought, len(batches)
    best = []
    timing = quiet.timed(lambda: best.append(extreme.of_features(features, labelled, batches)))
    exact = eigvalsh(features, labelled, batches, outer=case.points <= FEATURES)
    check(case, best[-1], exact)
    off = abs(best[-1].score / float(exact.max()) - 1)
    found = {OURS: timing | {"count": m, "sample": m, "off": off}}
    for name, solve in solvers(case).items():
        dense = name.startswith("eigvalsh")
        side = case.points if name == "eigvalsh" else FEATURES
        some = batches[: min(m, NUMBERS // side**2) if dense else ITERATED]
        scores = []
        timing = quiet.timed(
            lambda solve=solve, some=some, scores=scores: scores.append(solve(features, labelled, some))
        )
        if dense:
            check(case, extreme.of_features(features, labelled, some), scores[-1])
        for seconds in ("seconds", "processor_seconds"):
            timing[seconds] *= m / len(some)
        off = float((scores[-1] / exact[: len(some)] - 1).abs().max())
        found[name] = timing | {"count": m, "sample": len(some), "off": off}
    return found


def check(case: Search, best: extreme.Best, scores: Tensor) -> None:
    """Refuse a batch that is not the best by `scores` (m,)."""
    if best.batch != int(scores.argmax()) or abs(best.score / float(scores.max()) - 1) > SAME:
        raise UserError(f"{case}: the best of {len(scores)} batches is {int(scores.argmax())}; found {best}")
