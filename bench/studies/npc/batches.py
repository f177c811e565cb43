"""Does a criterion foretell what it is to foretell? Random batches, what criteria say of them, and what is true.

For each of m uniform batches of a query, with the trained network h of that query, N = labelled + batch:

lambda_min    NPC's criterion (3), the smallest eigenvalue of the last layer's kernel on N; 0 beyond its rank
nonzero       the min(N, d + 1)-th largest eigenvalue
logdet        log det(K + eps I) of rows of unit length
coverage      mean distance, in features, from an image of the pool to the nearest of N, minus that without the batch
uncertain     mean of 1 - the largest probability, over the batch
wrong         share of the batch that the network gets wrong
balance       entropy of the classes in the batch, 1 for equal shares
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bench.kernels.extreme import RIDGE
from bench.strategies import Query
from bench.strategies.npc import gradients

MEASURES = ("lambda_min", "nonzero", "logdet", "coverage", "uncertain", "wrong", "balance")


def measure(query: Query, size: int, count: int, labels: Tensor, stream: np.random.Generator) -> dict[str, list[float]]:
    """Each measure of `count` batches of `size` candidates, whose true labels are `labels` (U,)."""
    pool = gradients(query.net, query.candidates).double()  # (U, d + 1)
    known = gradients(query.net, query.labelled_images).double()  # (L, d + 1)
    doubt = 1 - query.outputs.softmax(1).amax(1)  # (U,)
    wrong = (query.outputs.argmax(1) != labels).double()  # (U,)
    away = torch.cdist(pool, known).amin(1)  # (U,)
    found: dict[str, list[float]] = {name: [] for name in MEASURES}
    for _ in range(count):
        batch = torch.from_numpy(stream.choice(len(pool), size, replace=False)).to(pool.device)
        rows = torch.cat([known, pool[batch]])  # (N, d + 1)
        smallest, nonzero = eigenvalues(rows)
        unit = F.normalize(rows)
        ridge = RIDGE * torch.eye(len(rows), dtype=rows.dtype, device=rows.device)
        classes = torch.bincount(labels[batch], minlength=query.outputs.shape[1]).double() / size
        said = {
            "lambda_min": smallest,
            "nonzero": nonzero,
            "logdet": torch.logdet(unit @ unit.T + ridge),
            "coverage": (torch.minimum(away, torch.cdist(pool, pool[batch]).amin(1)) - away).mean(),
            "uncertain": doubt[batch].mean(),
            "wrong": wrong[batch].mean(),
            "balance": torch.special.entr(classes).sum() / np.log(len(classes)),
        }
        for name, value in said.items():
            found[name].append(float(f"{float(value):.6g}"))  # rounding depends on the number of threads
    return found


def eigenvalues(rows: Tensor) -> tuple[float, float]:
    """lambda_min of K = F F^T, and its min(N, d)-th largest eigenvalue, for rows F (N, d).

    Beyond d rows lambda_min is 0 by construction; what a solver says is rounding, so 0 is what is said here.
    """
    n, d = rows.shape
    nonzero = float(torch.linalg.eigvalsh(rows @ rows.T if n <= d else rows.T @ rows)[0])
    return (nonzero if n <= d else 0.0), nonzero
