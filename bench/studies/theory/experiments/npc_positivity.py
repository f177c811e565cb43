"""Copies make lambda_min zero; distinct points make it positive only as long as the kernel has rank for them.

Statement: if the kernel's rows of different points differ, lambda_min of the Gram matrix is 0 for a set with copies and
positive for every set without. For two unit gradients with product +-a it is 1 - a. The last layer's lambda_min is
printed as >= that of the whole kernel; sums of positive semi-definite matrices give <=.
Where: NPC Proposition 1, the example before it, and section 3.4.
Refuted by: a set with copies whose lambda_min is above rounding; a set of distinct points, with distinct rows, whose
lambda_min is not. The last layer's kernel has rank d + 1 at most, for d features and a bias: N > d + 1 points are such.

Real kernels at initialisation, in NPC's form: every block of outputs replaced by its trace. `margin` is lambda_min over
what rounding makes of a zero eigenvalue: above 1 is positive, below is zero. `rank` is the kernel's on all points.
"""

import numpy as np
import torch

from bench.core.errors import UserError
from bench.kernels import spectrum
from bench.kernels.empirical import gram
from bench.nets import build, fcn, wrn28  # noqa: F401  # named below; so that the digest covers them
from bench.studies.theory.task import Task

SETTINGS = ("fcn", "wrn-28")
COLUMNS = ("net", "points", "kernel", "rank", "set", "lambda_min", "margin", "last_over_all", "pair_error", "agree")
CLASSES = 10


def parts(sizes: dict) -> list[dict]:
    return [{"net": number} for number in range(sizes["nets"])]


def measure(task: Task, part: dict) -> list[dict]:
    sizes, shape = task.sizes, (1, task.sizes["pixels"], task.sizes["pixels"])
    generator = task.torch_draw("npc-positivity", "net", part["net"])
    net = build(task.setting, shape, CLASSES, sizes["widths"][SETTINGS.index(task.setting)], generator)
    net = net.double().eval().to(task.device)
    draw = task.draw("npc-positivity", part["net"])
    x = torch.from_numpy(draw.normal(size=(max(sizes["points"]), *shape))).to(task.device)
    kernels = {"last": gram(net, x, output="trace", layers=["head"]), "all": gram(net, x, output="trace")}
    ranks = {name: rank(k) for name, k in kernels.items()}
    rows = []
    for n in sizes["points"]:
        sets = {"distinct": np.arange(n), "copies": np.append(np.arange(n - 1), 0)}
        for kind, chosen in sets.items():
            least = {name: smallest(k[chosen][:, chosen]) for name, k in kernels.items()}
            for name, k in kernels.items():
                about = {"points": n, "set": kind, "kernel": name, "rank": ranks[name], "lambda_min": least[name]}
                about |= {"margin": least[name] / spectrum.noise(k[:n, :n])}
                about |= {"last_over_all": least["last"] / least["all"]}
                rows.append(about | pairs(k.cpu().numpy(), draw, sizes["triples"]))
    return rows


def rank(kernel: torch.Tensor) -> int:
    """How many eigenvalues are above rounding."""
    return int((torch.linalg.eigvalsh(kernel) > spectrum.noise(kernel)).sum())


def smallest(kernel: torch.Tensor) -> float:
    """lambda_min, as it comes: rounding may leave a zero a little below 0."""
    return float(torch.linalg.eigvalsh(kernel)[0])


def pairs(kernel: np.ndarray, draw: np.random.Generator, count: int) -> dict:
    """Of random triples (l, u, u'): the error of 1 - a for pairs of unit gradients; and with gradients as they are, the
    share in which lambda_min prefers the pair with the smaller |cosine|, as it does with unit ones."""
    if len(kernel) < 3:
        raise UserError(f"a labelled point and two candidates are three points, found {len(kernel)}")
    triples = np.array([draw.choice(len(kernel), 3, replace=False) for _ in range(count)])
    norms = np.sqrt(kernel.diagonal())
    cosines = kernel / np.outer(norms, norms)
    chosen = triples[:, [[0, 1], [0, 2]]]  # (count, 2, 2): the pairs (l, u) and (l, u')
    raw, unit = (
        np.linalg.eigvalsh(matrix[chosen[..., :, None], chosen[..., None, :]])[..., 0].T for matrix in (kernel, cosines)
    )  # (2, count) each
    a = np.abs(cosines[chosen[..., 0], chosen[..., 1]]).T  # (2, count)
    return {
        "pair_error": float(np.abs(unit - (1 - a)).max()),
        "agree": float(((raw[0] > raw[1]) == (a[0] < a[1])).mean()),
    }
