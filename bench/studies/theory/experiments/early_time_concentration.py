"""Random inputs have norms near sqrt d, are nearly orthogonal, and |X X^T| grows like n.

Statement: for points of mean 0 and covariance Sigma, Tr Sigma = d, |Sigma| = O(1), and n >> d, with high probability
| |x_i|^2 / d - 1 | = O(sqrt(log n / d)) for all i, |<x_i, x_j>| / d = O(sqrt(log n / d)) for all i != j, and
|X X^T| = Theta(n).
Where: the early-time slides, assumptions and claim.
Refuted by: a quotient of the two sides that grows with d; for the last, one that grows or falls.

Inputs: entries from N(0, 1), +-1, or normal with variances from 1/2 to 3/2 (`correlated`: a rotation changes nothing).
"""

import math

import torch
from torch import Tensor

from bench.kernels.spectrum import largest
from bench.studies.theory.experiments import _early
from bench.studies.theory.task import Task

SETTINGS = ("gaussian", "rademacher", "correlated")
COLUMNS = ("d", "n", "norms", "products", "top")
ROWS = 1024


def parts(sizes: dict) -> list[dict]:
    return [{"d": d} for d in sizes["dimensions"]]


def measure(task: Task, part: dict) -> list[dict]:
    d = part["d"]
    n = _early.grown(d, task.sizes["factor"], task.sizes["alpha"])
    x = _early.inputs(task.setting, n, d, task.draw("early-time-concentration", d))
    return [{"n": n} | quotients(_early.tensor(x, task.device))]


def quotients(x: Tensor) -> dict[str, float]:
    """The left sides over the right ones; 0 for products of a single point."""
    n, d = x.shape
    size = math.sqrt(math.log(max(n, 2)) / d)
    norms, products = float((x.square().sum(1) / d - 1).abs().max()), 0.0
    for start in range(0, n, ROWS):
        block = (x[start : start + ROWS] @ x.T).abs_()  # (rows, n)
        block[torch.arange(len(block)), torch.arange(start, start + len(block))] = 0  # i != j
        products = max(products, float(block.max()) / d)
    return {"norms": norms / size, "products": products / size, "top": largest(lambda v: x @ (x.T @ v), x[:, 0]) / n}
