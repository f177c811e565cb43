"""The eNTK beside the pNTK, at every moment of training (thesis figs 3.2 to 3.8, 3.13, A.5 to A.8).

Regression is (3.4) and (3.5) with f_e, the network whose weights define the kernel, as prior. Where that network
interpolates, Y - f_e(D) is near zero and both predictions are f_e, whatever the kernels. So every gap comes with two
controls: `gap_without_prior`, of regressions on Y itself, and `gap_of_additions`, relative to what the kernel adds.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.kernels.cholesky import NotPositive
from bench.kernels.empirical import gram
from bench.learn.data import Data
from bench.learn.train import predict
from bench.studies.pntk import Cell
from bench.studies.pntk.quantities import Solved, apart, compare, relative, solve
from bench.studies.pntk.training import BUDGET, Points, build, follow

ROWS = 512  # of a block of test points, brought to float64 at once


def measure(cell: Cell, settings: dict, data: Data, device: torch.device, journal) -> dict:
    points, dtype = Points(cell, settings["protocol"], data), getattr(torch, settings["protocol"]["precision"])
    net = build(cell, settings, data, device)

    def quantities(net: nn.Module, epoch: int, statistics: str) -> dict:
        net = net.to(dtype)
        try:
            return _quantities(net, points, dtype, journal, epoch)
        finally:
            net.float()

    return follow(cell, settings, net, points, journal, quantities)


def _quantities(net: nn.Module, points: Points, dtype: torch.dtype, journal, epoch: int) -> dict:
    x, x_test = points.x.to(dtype), points.x_test.to(dtype)
    with journal.clock("entk", epoch):
        theta = gram(net, x, budget=BUDGET, progress=True)  # (N O, N O)
    with journal.clock("pntk", epoch):
        pseudo = gram(net, x, output="pseudo", budget=BUDGET)  # (N, N)
    with journal.clock("compare", epoch):
        found = compare(theta, pseudo)
    f, f_test = predict(net, x).double(), predict(net, x_test).double()  # (N, O), (M, O)
    o = f.shape[1]
    labelled = o > int(points.y.max())  # a net with fewer outputs than classes has a kernel, and nothing to predict
    targets = F.one_hot(points.y, o).double() if labelled else f  # (N, O)
    rhs = torch.stack([targets - f, targets], 2)  # (N, O, 2): with the prior f, and without
    try:
        with journal.clock("solve", epoch):
            of_pseudo = solve(pseudo, rhs.flatten(1))  # one column for each output
            of_theta = solve(theta, rhs.flatten(0, 1))
    except NotPositive as failed:
        return found | {"singular": failed.row}
    del theta
    found |= _spectra(of_theta, of_pseudo)
    if not labelled:
        return found
    with journal.clock("cross", epoch):
        cross = gram(net, x_test, x, output="pseudo", budget=BUDGET)  # (M, N)
        ours = _times(cross, of_pseudo.weights).view(-1, o, 2)  # (M, O, 2)
        cross = gram(net, x_test, x, budget=BUDGET, progress=True)  # (M O, N O)
        theirs = _times(cross, of_theta.weights).view(-1, o, 2)
    return found | _predictions(f_test, theirs, ours, points.y_test)


def _times(cross: Tensor, weights: Tensor) -> Tensor:
    return torch.cat([rows.double() @ weights for rows in cross.split(ROWS)])


def _spectra(theta: Solved, pseudo: Solved) -> dict:
    found = {}
    for name, each in (("theta", theta), ("pseudo", pseudo)):
        found |= {f"{name}_{key}": value for key, value in each._asdict().items() if key != "weights"}
    conditions = [s.lambda_max / s.lambda_min if s.lambda_min > 0 else None for s in (theta, pseudo)]
    return found | {
        "theta_condition": conditions[0],
        "pseudo_condition": conditions[1],
        "lambda_max": relative(pseudo.lambda_max, theta.lambda_max),  # fig. 3.4
        "lambda_min": relative(pseudo.lambda_min, theta.lambda_min),  # fig. 3.5
        "condition": relative(conditions[1], conditions[0]) if all(conditions) else None,  # fig. 3.6
    }


def _predictions(f: Tensor, theirs: Tensor, ours: Tensor, y: Tensor) -> dict[str, float]:
    """f (M, O) of the network; what the eNTK and the pNTK add to it, and what they predict alone, (M, O, 2)."""

    def accuracy(outputs: Tensor) -> float:
        return (outputs.argmax(1) == y).double().mean().item()

    return {
        "gap": apart(f + ours[:, :, 0], f + theirs[:, :, 0]),  # fig. 3.7
        "gap_without_prior": apart(ours[:, :, 1], theirs[:, :, 1]),
        "gap_of_additions": apart(ours[:, :, 0], theirs[:, :, 0]),
        "addition": float(theirs[:, :, 0].norm() / (f + theirs[:, :, 0]).norm()),  # what the eNTK adds, of the whole
        "theta_accuracy": accuracy(f + theirs[:, :, 0]),
        "pseudo_accuracy": accuracy(f + ours[:, :, 0]),  # fig. 3.8
        "theta_accuracy_without_prior": accuracy(theirs[:, :, 1]),
        "pseudo_accuracy_without_prior": accuracy(ours[:, :, 1]),
    }
