"""What else might stand for the eNTK (pNTK, one logit, trace, infinite NTK), by error, agreement, time and memory.

Not in the thesis. Every surrogate K is N x N and stands for K kron I_O. Its error is that of the whole matrix, as it is
and after the best scaling (regression does not see a scale). Its predictions are compared with the eNTK's by Kendall's
tau over all test outputs (Engel et al. 2024) and by accuracy, without the prior f, which would hide the kernels.
"""

import math

import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor, nn

from bench.core import registry
from bench.kernels import infinite
from bench.kernels.cholesky import NotPositive
from bench.kernels.empirical import gram
from bench.learn.data import Data
from bench.studies.pntk import Cell
from bench.studies.pntk.quantities import POINTS, apart, solve
from bench.studies.pntk.training import BUDGET, Points, build, follow

VARIANCES = {"he": 2.0, "truncated": 2.0, "lecun": 1.0, "torch": 1 / 3}  # n times that of a weight of fan-in n
KINDS = {"pntk": "pseudo", "one-logit": "first", "trace": "trace"}


def measure(cell: Cell, settings: dict, data: Data, device: torch.device, journal) -> dict:
    points, dtype = Points(cell, settings["protocol"], data), getattr(torch, settings["protocol"]["precision"])
    net = build(cell, settings, data, device)

    def quantities(net: nn.Module, epoch: int, statistics: str) -> dict:
        found = {"surrogates": _scores(net.to(dtype), cell, points, dtype, journal, epoch)}
        net.float()
        return found

    return follow(cell, settings, net, points, journal, quantities, both=False)


def _scores(net: nn.Module, cell: Cell, points: Points, dtype: torch.dtype, journal, epoch: int) -> list[dict]:
    x, x_test, o = points.x.to(dtype), points.x_test.to(dtype), net.head.out_features
    targets = F.one_hot(points.y, o).double()  # (N, O)
    kernels = {}
    for kind in [
        *KINDS,
        *(["infinite"] if _limit(cell) else []),
        "entk",
    ]:  # the eNTK last: memory once freed is used again
        with journal.clock(kind, epoch), journal.weigh(kind, epoch):
            kernels[kind] = _kernel(kind, net, cell, x)
    theta, reference, rows = kernels["entk"], None, []
    for kind, kernel in reversed(kernels.items()):
        row = {"kernel": kind, "numbers": kernel.numel()} | ({} if kind == "entk" else _errors(theta, kernel))
        try:
            weights = solve(kernel.clone(), targets if len(kernel) == len(x) else targets.view(-1, 1)).weights
        except NotPositive as failed:
            rows.append(row | {"singular": failed.row})
            continue
        predicted = (_kernel(kind, net, cell, x_test, x).double() @ weights).view(-1, o)  # (M, O)
        row["accuracy"] = (predicted.argmax(1) == points.y_test).double().mean().item()
        if kind == "entk":
            reference = predicted
        if reference is not None:
            row |= {"gap": apart(predicted, reference), "tau": _tau(predicted, reference)}
        rows.append(row)
    return rows


def _kernel(kind: str, net: nn.Module, cell: Cell, x: Tensor, x2: Tensor | None = None) -> Tensor:
    if kind == "infinite":
        return infinite.fcn(x, x2, width=cell.width, **_limit(cell)).ntk
    kernel = gram(net, x, x2, output=KINDS.get(kind, "full"), budget=BUDGET)
    return kernel / net.head.out_features if kind == "trace" else kernel


def _limit(cell: Cell) -> dict | None:
    """The network as its kernel of infinite width sees it; biases, whose variance falls with width, have none."""
    component, options = registry.parse("nets", cell.net)
    if component.name != "fcn" or options["activation"] not in infinite.MOMENTS or options["widen"] != "all":
        return None
    variance = VARIANCES[options["init"]]
    return {"depth": options["depth"], "activation": options["activation"], "weight_variance": variance}


def _errors(theta: Tensor, kernel: Tensor) -> dict[str, float]:
    """|K kron I - T|_F / |T|_F, of K as it is and times the best factor."""
    n, o = len(kernel), len(theta) // len(kernel)
    squared = inner = 0.0
    for start in range(0, n, POINTS):
        blocks = theta[start * o : (start + POINTS) * o].double().view(-1, o, n, o)  # (b, O, N, O)
        squared += blocks.square().sum().item()
        traces = blocks.diagonal(dim1=1, dim2=3).sum(2)  # (b, N)
        inner += (traces * kernel[start : start + POINTS].double()).sum().item()  # <T, K kron I>
    own = o * kernel.double().square().sum().item()  # |K kron I|_F^2
    missed = max(0.0, squared - 2 * inner + own)
    return {
        "frobenius": math.sqrt(missed / squared),
        "frobenius_scaled": math.sqrt(max(0.0, 1 - inner**2 / (own * squared))),
    }


def _tau(a: Tensor, b: Tensor) -> float:
    return float(stats.kendalltau(a.flatten().cpu().numpy(), b.flatten().cpu().numpy()).statistic)
