"""A larger lambda_min allows larger steps and faster training, and generalises better: on images.

Statement: as in `npc-batches`.
Where: NPC section 4.1, the remarks after Theorem 1.
Refuted by: as in `npc-batches`; the pool are images, the labels +1 for even classes and -1 for odd ones.
"""

from bench.core.errors import UserError
from bench.studies.theory.experiments import _batches
from bench.studies.theory.task import Task

IMAGES = True
SETTINGS = ("digits", "mnist", "cifar10")
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

parts = _batches.parts


def measure(task: Task, part: dict) -> list[dict]:
    pool, test = task.sizes["pool"], task.sizes["test"]
    if min(task.data.size("train") - pool, task.data.size("test") - test) < 0:
        there = f"{task.data.size('train')} and {task.data.size('test')}"
        raise UserError(f"{task.setting}: {pool} images to train and {test} to test wanted, there are {there}")
    sides = []
    for split, n in (("train", pool), ("test", test)):
        chosen = task.draw("npc-batches-images", split).choice(task.data.size(split), n, replace=False)
        x = task.data.images(split, chosen).flatten(1).double()  # (n, d)
        sides += [x.to(task.device), (1 - 2 * (task.data.labels(split, chosen) % 2)).double().to(task.device)]
    return _batches.rows(task, part, _batches.Pool(*sides))
