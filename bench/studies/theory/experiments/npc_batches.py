"""A larger lambda_min allows larger steps and faster training, and generalises better: the test NPC does not make.

Statement: the steps at which gradient descent converges are determined by lambda_min(K_0), so data chosen for a large
lambda_min allow larger steps, converge faster, and generalise better.
Where: NPC section 4.1, the remarks after Theorem 1.
Refuted by: over random batches of equal size from one pool, a rank correlation of lambda_min with the largest stable
step, with the steps that training takes, or with the test error, that is not on the side that the text says. Linear
theory says that the largest stable step is 2 / lambda_max.

The step is found by bisection with real gradient descent of a wide two-layer ReLU net, on the loss 1/2 |f - y|^2. Steps
until the loss is `goal` of its start, at one step for all batches (1 / the largest lambda_max) and at each one's own
1 / lambda_max, or a tiny share `far` of it, and the test error at the end of training, over the variance of the labels,
are those of its kernel. `gaussian`: x normal in d dimensions; `clusters`: around ten centres, so that some batches have
near copies. Labels are a random two-layer net's outputs.
"""

import numpy as np
import torch

from bench.studies.theory.experiments import _batches, _two_layers
from bench.studies.theory.task import Task

SETTINGS = ("gaussian", "clusters")
COLUMNS = (
    "batch",
    "lambda_min",
    "lambda_max",
    "step",
    "step_times",
    "steps_common",
    "steps_own",
    "steps_far",
    "test_error",
)
CENTRES, SPREAD = 10, 0.3

parts = _batches.parts


def measure(task: Task, part: dict) -> list[dict]:
    sizes = task.sizes
    draw = task.draw("npc-batches", "pool")
    n, d = sizes["pool"] + sizes["test"], sizes["d"]
    x = draw.normal(size=(n, d))
    if task.setting == "clusters":
        x = draw.normal(size=(CENTRES, d))[draw.integers(CENTRES, size=n)] + SPREAD * x
    x = torch.from_numpy(np.ascontiguousarray(x)).to(task.device)
    teacher = _two_layers.draw(20, d, "erf", task.torch_draw("npc-batches", "teacher"), task.device)
    y = teacher(x)
    y = (y - y.mean()) / y.std()
    return _batches.rows(
        task, part, _batches.Pool(x[: sizes["pool"]], y[: sizes["pool"]], x[sizes["pool"] :], y[sizes["pool"] :])
    )
