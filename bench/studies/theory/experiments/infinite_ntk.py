"""As the width grows, the tangent kernel of a net at initialisation converges to its expectation.

Statement: the empirical kernel of a fully-connected net of width n tends to the kernel of the closed recursion
(bench/kernels/infinite.py); sums of n independent terms make O(n^(-1/2)).
Where: the lecture, "k_SS converges to its expectation" (Arora et al. 2019); thesis 2.2, below (2.10).
Refuted by: a relative distance |Theta - E Theta|_F / |E Theta|_F that does not fall, or falls at another rate.

Nets are the suite's FCN in the standard parameterisation, initialised as He et al.; their closed kernel depends on the
width. A setting names the activation and the number of hidden layers.
"""

import torch
from torch import Tensor

from bench.kernels import infinite
from bench.kernels.empirical import gram
from bench.nets import build, fcn
from bench.studies.theory.task import Task

SETTINGS = ("relu-1", "relu-3", "erf-1", "erf-3")
COLUMNS = ("width", "trials", "error", "bias")
NET = fcn.__name__.rpartition(".")[2]  # `build` finds nets by name; imported as well, it is part of a cell's digest
WEIGHT_VARIANCE = 2.0  # times 1/fan-in: He et al., the net's default


def parts(sizes: dict) -> list[dict]:
    return [{"width": width} for width in sizes["widths"]]


def measure(task: Task, part: dict) -> list[dict]:
    """`error` is the root mean square over trials, `bias` that of the mean kernel, both relative to the closed form."""
    activation, depth = task.setting.split("-")
    x = points(task)
    closed = infinite.fcn(
        x, depth=int(depth), activation=activation, weight_variance=WEIGHT_VARIANCE, width=part["width"]
    ).ntk  # (N, N)
    spec = f"{NET}+depth={depth}+activation={activation}"
    found = []
    for trial in range(task.sizes["trials"]):
        draw = task.torch_draw("infinite-ntk", "net", part["width"], trial)
        net = build(spec, tuple(x.shape[1:]), 1, part["width"], draw).double().to(task.device)
        found.append(gram(net.eval(), x))  # (N, N): one output
    errors = torch.stack([relative(theta, closed) for theta in found])
    row = {"trials": len(found), "error": errors.square().mean().sqrt().item()}
    return [row | {"bias": relative(torch.stack(found).mean(0), closed).item()}]


def points(task: Task) -> Tensor:
    """Normal points, the same for all widths, as images of one pixel; (N, d, 1, 1)."""
    draw = task.draw("infinite-ntk", "points")
    x = draw.normal(size=(task.sizes["points"], task.sizes["dimension"], 1, 1))
    return torch.from_numpy(x).to(task.device)


def relative(theta: Tensor, closed: Tensor) -> Tensor:
    return (theta - closed).norm() / closed.norm()
