"""Random batches of equal size from one pool: eigenvalues, the largest stable step, speed of training, test error."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bench.core.errors import UserError
from bench.kernels.regression import regress
from bench.studies.theory.experiments import _two_layers
from bench.studies.theory.task import Task

HALVINGS = 12  # of the bracket around the largest stable step


@dataclass(frozen=True)
class Pool:
    x: Tensor  # (pool, d)
    y: Tensor  # (pool,)
    x_test: Tensor  # (test, d)
    y_test: Tensor  # (test,)


def parts(sizes: dict) -> list[dict]:
    return [{"first": first} for first in range(0, sizes["batches"], sizes["at_once"])]


def rows(task: Task, part: dict, pool: Pool) -> list[dict]:
    """What the batches from number `first` on show; every one of a seed is trained from the same initial net."""
    sizes = task.sizes
    if sizes["points"] > len(pool.x):
        raise UserError(f"batches of {sizes['points']} points from a pool of {len(pool.x)}: at most the pool")
    net = _two_layers.draw(sizes["width"], pool.x.shape[1], "relu", task.torch_draw("npc-batches", "net"), task.device)
    kernel = net.kernel(pool.x, pool.x)
    chosen = [
        task.draw("npc-batches", number).choice(len(pool.x), sizes["points"], replace=False)
        for number in range(sizes["batches"])
    ]
    ends = torch.stack([torch.linalg.eigvalsh(kernel[batch][:, batch])[[0, -1]] for batch in chosen])  # (batches, 2)
    common, bracket = 1 / float(ends[:, 1].max()), (0.1 / float(ends[:, 1].max()), 20 / float(ends[:, 1].min()))
    found = []
    for number in range(part["first"], min(part["first"] + sizes["at_once"], sizes["batches"])):
        batch = chosen[number]
        x, y, k = pool.x[batch], pool.y[batch], kernel[batch][:, batch]
        least, most = (float(value) for value in ends[number])
        step = largest_stable(net, x, y, bracket, sizes["steps"])
        cross = net.kernel(pool.x_test, x)
        ahead = regress(k, cross, y[:, None], (net(x)[:, None], net(pool.x_test)[:, None])).prediction[:, 0]
        error = (ahead - pool.y_test).square().mean() / pool.y_test.var(unbiased=False)
        row = {"batch": number, "lambda_min": least, "lambda_max": most, "step": step, "step_times": step * most / 2}
        row |= {"steps_common": steps_to(k, y - net(x), common, sizes["goal"])}
        row |= {"steps_own": steps_to(k, y - net(x), 1 / most, sizes["goal"])}
        row |= {"steps_far": steps_to(k, y - net(x), common, sizes["far"])}
        found.append(row | {"test_error": float(error)})
    return found


def largest_stable(net: _two_layers.Net, x: Tensor, y: Tensor, bracket: tuple[float, float], steps: int) -> float:
    """The largest eta at which the loss of real gradient descent never exceeds its start, by bisection in log eta."""

    def stable(eta: float) -> bool:
        moved, first = net, float((net(x) - y).square().sum())
        for _ in range(steps):
            residual = moved(x) - y
            if not float(residual.square().sum()) <= first * (1 + 1e-9):
                return False
            moved = moved.step(moved.gradient(x, residual), eta)
        return True

    low, high = bracket
    for _ in range(HALVINGS):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if stable(middle) else (low, middle)
    return float(np.sqrt(low * high))


def steps_to(kernel: Tensor, residual: Tensor, eta: float, goal: float) -> int:
    """Steps eta <= 1 / lambda_max of descent with a constant kernel (n, n) until the loss is `goal` of its start."""
    eigs, vectors = torch.linalg.eigh(kernel)
    share = (vectors.mT @ residual).square().cpu().numpy()  # (n,)
    share, decay = share / share.sum(), np.log(np.clip(1 - eta * eigs.cpu().numpy(), 1e-300, 1))  # (n,)
    low, high = 0, 1
    while share @ np.exp(2 * high * decay) > goal:
        low, high = high, 2 * high
        if high > 10**12:
            raise UserError("the kernel of a batch is singular and its labels conflict: the loss never falls so far")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if share @ np.exp(2 * middle * decay) > goal else (low, middle)
    return high
