"""Regression with the pNTK of a whole dataset (thesis 3.4, figs 3.9 to 3.12, 3.14, A.9).

The kernel of all N training points is built in tiles, in memory or in a file that a killed run finds again; several
jobs may share the tiles of one file, the stages of a cell. It is solved in place: one N x N matrix holds the Cholesky
factor and, in its other triangle, still the kernel. A float32 factor is refined in float64. Where that does not bring
the residual below RESIDUAL, the kernel is too near to singular, and ten times the jitter is tried; the record has both.
The factor of the first n points is a part of the factor of all, so accuracies for smaller training sets come for the
price of a solve.
"""

import re
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.core.errors import UserError
from bench.core.files import replacing
from bench.core.progress import say
from bench.kernels.cholesky import Factor, NotPositive
from bench.kernels.empirical import gram
from bench.kernels.spectrum import ends, noise
from bench.learn.data import Data
from bench.learn.train import predict
from bench.studies.pntk import Cell
from bench.studies.pntk.training import BUDGET, Points, build, follow

JITTER, GROWTH, MOST = 1e-6, 10, 1e-2  # of the mean diagonal: at first, from try to try, at most
LADDER = [digit * 10**power for power in range(2, 6) for digit in (1, 2, 5)]  # training set sizes
REFINEMENTS, RESIDUAL = 2, 1e-3  # steps in float64; the relative residual after them, at most
NETWORKS = "networks"  # in the scratch folder: the record of training, with weights


def measure(cell: Cell, settings: dict, data: Data, device: torch.device, journal) -> dict:
    """The networks first, then the regression of each; either may have been begun by `stage`."""
    protocol = settings["protocol"]
    points, net = Points(cell, protocol, data), build(cell, settings, data, device)
    folder = journal.scratch() if protocol["storage"] == "disk" else None
    found = (journal.state or {}).get("followed")
    if found is None:
        found = _networks(cell, settings, net, points, journal, folder and folder / NETWORKS)
        for path in sorted(folder.glob("*.pt")) if folder else ():
            journal.absorb(path)
        journal.save({"followed": found})
    for moment in found["moments"]:
        if weights := moment.get("weights"):
            epoch, dtype = moment["epoch"], getattr(torch, protocol["precision"])
            say(f"kernel after epoch {epoch}")
            file = folder and folder / f"pntk-{epoch}.npy"
            net.float().eval().load_state_dict(weights)
            moment |= _quantities(net.to(dtype), points, dtype, journal, epoch, file)
            del moment["weights"]
            journal.save({"followed": found})
            for path in folder.glob(f"pntk-{epoch}.npy*") if folder else ():
                path.unlink()
    return found


def stage(name: str, cell: Cell, settings: dict, data: Data, device: torch.device, journal, folder: Path) -> None:
    """`networks`: train, and keep the networks; then `tiles-<k>-of-<jobs>`: a part of the tiles of their kernels."""
    protocol = settings["protocol"]
    points, net = Points(cell, protocol, data), build(cell, settings, data, device)
    if name == "networks":
        _networks(cell, settings, net, points, journal, folder / NETWORKS)
        return
    known = re.fullmatch(r"tiles-([0-9]+)-of-([0-9]+)", name)
    if not known:
        raise UserError(f"--stage: found {name!r}; allowed: networks, tiles-<k>-of-<jobs>")
    if not (folder / NETWORKS).is_file():
        raise UserError(f"{cell}: there are no networks yet; do the stage `networks` first, with the same settings")
    part, dtype = tuple(map(int, known.groups())), getattr(torch, protocol["precision"])
    for moment in _networks(cell, settings, net, points, journal, folder / NETWORKS)["moments"]:
        epoch = moment["epoch"]
        net.float().eval().load_state_dict(moment["weights"])
        with journal.clock("kernel", epoch):
            _kernel(net.to(dtype), points.x.to(dtype), folder / f"pntk-{epoch}.npy", part)


def _networks(cell: Cell, settings: dict, net: nn.Module, points: Points, journal, file: Path | None) -> dict:
    """The record of training, with the weights at each moment for what is measured; from `file` if it is there."""
    if file and file.is_file():
        return torch.load(file, map_location=points.x.device, weights_only=True)

    def keep(net: nn.Module, epoch: int, statistics: str) -> dict:
        return {"weights": {name: value.clone() for name, value in net.state_dict().items()}}

    found = follow(cell, settings, net, points, journal, keep, both=False)
    if file:
        with replacing(file) as part:
            torch.save(found, part)
    return found


def _kernel(net: nn.Module, x: Tensor, file: Path | None, part: tuple[int, int] | None = None) -> Tensor | None:
    return gram(net, x, output="pseudo", budget=BUDGET, out=file, part=part, progress=True)  # (N, N)


def _quantities(net: nn.Module, points: Points, dtype: torch.dtype, journal, epoch: int, file) -> dict:
    x, x_test = points.x.to(dtype), points.x_test.to(dtype)
    with journal.clock("kernel", epoch):
        kernel = _kernel(net, x, file)
    f, f_test = predict(net, x).double(), predict(net, x_test).double()  # (N, O), (M, O)
    targets = F.one_hot(points.y, f.shape[1]).double()  # (N, O)
    rhs = torch.cat([targets - f, targets], 1)  # (N, 2 O): with the prior f, and without
    rhs = rhs.to(kernel.device)  # a kernel on disk is on the CPU
    floor, mean = noise(kernel), float(kernel.diagonal().double().mean())
    jitter = JITTER
    while True:
        with journal.clock("factor", epoch):
            factor, jitter = _factor(kernel, mean, jitter)
        if factor is None:
            return {"singular": True}
        with journal.clock("solve", epoch):
            whole, residual = factor.refined(rhs, REFINEMENTS)
        if residual <= RESIDUAL or jitter * GROWTH > MOST:
            break
        say(f"residual {residual:.0e} with jitter {jitter:.0e}: once more with {jitter * GROWTH:.0e}")
        factor.restore()
        jitter *= GROWTH
    with journal.clock("spectrum", epoch):
        least, most = ends(factor, tolerance=1e-4)
    sizes = sorted({*(size for size in LADDER if size < len(x)), len(x)})
    with journal.clock("solve", epoch):
        half = factor.forward(rhs.to(dtype))  # L^-1 b, whose first n rows serve every n
        weights = [F.pad(factor.backward(half, size), (0, 0, 0, len(x) - size)) for size in sizes[:-1]]
        weights = torch.stack([*weights, whole.to(dtype)], 2).flatten(1)  # (N, 2 O sizes)
    with journal.clock("cross", epoch):
        cross = gram(net, x_test, x, output="pseudo", budget=BUDGET, progress=True)  # (M, N)
        added = (cross @ weights.to(cross.device)).double().view(len(x_test), 2, -1, len(sizes))  # (M, 2, O, sizes)
    y = points.y_test
    return {
        "lambda_max": most,
        "lambda_min": least,
        "resolved": least > floor,
        "jitter": jitter * mean,
        "relative_jitter": jitter,
        "residual": residual,
        "sizes": sizes,
        "accuracies": [_accuracy(f_test + added[:, 0, :, k], y) for k in range(len(sizes))],
        "accuracies_without_prior": [_accuracy(added[:, 1, :, k], y) for k in range(len(sizes))],
    }


def _factor(kernel: Tensor, mean: float, jitter: float) -> tuple[Factor | None, float]:
    """The factor with the least jitter of a ladder that lets it succeed; a kernel of lower rank than N needs more."""
    while jitter <= MOST:
        try:
            return Factor(kernel, jitter * mean, progress=True), jitter
        except NotPositive:
            jitter *= GROWTH
    return None, jitter


def _accuracy(outputs: Tensor, y: Tensor) -> float:
    return (outputs.argmax(1) == y).double().mean().item()
