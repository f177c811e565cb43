"""Warm and cold starts end in the same function, if sets are nested, training lasts for ever and there is no ridge.

Statement: train on S_1, then go on with S_2, ..., S_C, each to convergence. If every set contains the one before it and
the kernel stays what it is, the end is that of training on S_C alone, at every x.
Where: thesis Theorem 2.2.1, Theorem A.1.2 and (A.14), (A.15).
Refuted by: nested chains whose ends differ by more than rounding. What the proof needs is taken away bit by bit, and
the gap between the two ends measured: `ridge` (in units of the mean diagonal), `finite-time` (t lambda_max / n of every
stage), `not-nested` (the share of a set that the next one leaves out). `relabelled` keeps the inputs nested and draws
new labels in every stage: (A.15) does not use them, so nothing may break.

Kernels are infinite-width NTKs of points on a sphere; f_0 is drawn from the NNGP, as at initialisation.
"""

import numpy as np
import torch
from torch import Tensor

from bench.core.errors import UserError
from bench.kernels import infinite
from bench.kernels.regression import gradient_flow, regress
from bench.studies.theory.task import Task

SETTINGS = ("nested", "relabelled", "ridge", "finite-time", "not-nested")
COLUMNS = ("stages", "strength", "trial", "gap", "condition")


def parts(sizes: dict) -> list[dict]:
    return [{"stages": stages} for stages in sizes["stages"]]


def measure(task: Task, part: dict) -> list[dict]:
    stages, sizes, rows = part["stages"], task.sizes, []
    if stages > sizes["points"]:
        raise UserError(f"{stages} stages need as many points, there are {sizes['points']}")
    strengths = {"ridge": sizes["ridges"], "finite-time": sizes["times"], "not-nested": sizes["dropped"]}
    for trial in range(sizes["trials"]):
        draw = task.draw("warm-cold", stages, trial)
        x = sphere(sizes["points"] + sizes["test"], sizes["d"], draw)
        k = infinite.fcn(x, depth=1 + trial % 3)
        f0 = torch.linalg.cholesky(k.nngp + 1e-12 * torch.eye(len(x))) @ torch.from_numpy(draw.normal(size=(len(x), 1)))
        y = torch.from_numpy(draw.normal(size=(stages, len(x), 1)))
        if task.setting != "relabelled":
            y = y[-1:].expand_as(y)
        known = k.ntk[: sizes["points"], : sizes["points"]]
        condition = float(torch.linalg.cond(known))
        blocks = np.array_split(np.arange(sizes["points"]), stages)
        for strength in strengths.get(task.setting, [0.0]):
            dropped = strength if task.setting == "not-nested" else 0.0
            sets = chain(blocks, dropped, draw)
            more = {"ridge": {"ridge": strength}, "finite-time": {"time": strength}}.get(task.setting, {})
            gap = apart(k.ntk, f0, y, sets, slice(sizes["points"], None), **more)
            rows.append({"strength": strength, "trial": trial, "gap": gap, "condition": condition})
    return rows


def sphere(n: int, d: int, draw: np.random.Generator) -> Tensor:
    """n points of norm sqrt d in d dimensions, (n, d)."""
    x = draw.normal(size=(n, d))
    return torch.from_numpy(x / np.linalg.norm(x, axis=1, keepdims=True) * np.sqrt(d))


def chain(blocks: list[np.ndarray], dropped: float, draw: np.random.Generator) -> list[np.ndarray]:
    """Every set is a block of new points and the set before it, of which a share `dropped` is left out."""
    sets = blocks[:1]
    for block in blocks[1:]:
        kept = draw.permutation(sets[-1])[: round((1 - dropped) * len(sets[-1]))]
        sets.append(np.concatenate([kept, block]))
    return sets


def apart(
    k: Tensor, f0: Tensor, y: Tensor, sets: list, test: slice, ridge: float = 0.0, time: float | None = None
) -> float:
    """max over the test points of |warm - cold| over that of |cold - f_0|; k (N, N), f0 (N, 1), y (stages, N, 1)."""

    def trained(f: Tensor, chosen: np.ndarray, labels: Tensor) -> Tensor:
        train, cross, prior = k[chosen][:, chosen], k[:, chosen], (f[chosen], f)
        if time is not None:
            t = time * len(chosen) / float(torch.linalg.eigvalsh(train)[-1])
            return gradient_flow(train, cross, labels[chosen], [t], prior)[0]  # (A.13)
        scaled = ridge * float(k.diagonal().mean())
        return regress(train, cross, labels[chosen], prior, ridge=scaled, jitter="none").prediction  # (2.6)

    warm = f0
    for chosen, labels in zip(sets, y, strict=True):
        warm = trained(warm, chosen, labels)
    cold = trained(f0, sets[-1], y[-1])
    return float((warm - cold)[test].abs().max() / (cold - f0)[test].abs().max())
