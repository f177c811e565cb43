"""Warm and cold starts of a trained net of finite width end ever closer to each other as the net grows.

Statement: what Theorem 2.2.1 says of infinitely wide nets; for finite ones the thesis has (2.9), a distance from the
linearised net of O(width^(-1/2)), and so a gap between warm and cold of that order.
Where: thesis Theorem 2.2.1 with (2.9).
Refuted by: a gap that does not fall, or more slowly than width^(-1/2).

Two-layer nets, all weights trained by full-batch gradient descent until the residual is `tolerance` of the labels, at
the step 1 / lambda_max of the kernel at initialisation; warm on a chain of nested sets, cold on the last. The theorem
asks for a twice differentiable activation: erf is one, ReLU is not.
"""

import numpy as np
import torch

from bench.core.errors import UserError
from bench.studies.theory.experiments import _two_layers
from bench.studies.theory.task import Task

SETTINGS = ("erf", "relu")
COLUMNS = ("m", "trial", "gap", "movement", "residual", "steps")


def parts(sizes: dict) -> list[dict]:
    return [{"m": m} for m in sizes["widths"]]


def measure(task: Task, part: dict) -> list[dict]:
    m, sizes = part["m"], task.sizes
    if sizes["points"] < sizes["stages"]:
        raise UserError(f"{sizes['stages']} stages need as many points, there are {sizes['points']}")
    rows = []
    for trial in range(sizes["trials"]):
        draw = task.draw("warm-cold-nets", m, trial)
        x = draw.normal(size=(sizes["points"] + sizes["test"], sizes["d"]))
        x *= np.sqrt(sizes["d"]) / np.linalg.norm(x, axis=1, keepdims=True)
        x = torch.from_numpy(x).to(task.device)
        y = torch.from_numpy(draw.normal(size=sizes["points"])).to(task.device)
        x, new = x[: sizes["points"]], x[sizes["points"] :]
        start = _two_layers.draw(m, sizes["d"], task.setting, task.torch_draw("warm-cold-nets", m, trial), task.device)
        eta = 1 / float(torch.linalg.eigvalsh(start.kernel(x, x))[-1])
        stop = {"eta": eta, "tolerance": sizes["tolerance"], "most": sizes["steps"]}
        warm, taken = start, 0
        for stage in range(1, sizes["stages"] + 1):
            n = stage * len(x) // sizes["stages"]
            warm, steps, residual = _two_layers.train(warm, x[:n], y[:n], **stop)
            taken += steps
        cold, steps, other = _two_layers.train(start, x, y, **stop)
        gap, movement = (warm(new) - cold(new)).square().mean().sqrt(), (cold(new) - start(new)).square().mean().sqrt()
        row = {"trial": trial, "gap": float(gap / movement), "movement": float(movement)}
        rows.append(row | {"residual": max(residual, other), "steps": taken + steps})
    return rows
