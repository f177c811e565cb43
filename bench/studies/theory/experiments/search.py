"""The best of m random batches is among the best fraction r of all batches with probability 1 - (1 - r)^m.

Statement: NPC draws m batches at random and keeps the one with the largest score. The text prints (1 - r)^m for the
probability that this batch is in the top r; that is the probability of the complement.
Where: NPC section 4, with the example r = 0.01 and m = 1,000.
Refuted by: a frequency outside the binomial spread around the probability.
"""

import numpy as np

from bench.studies.theory.task import Task

SETTINGS = ("uniform", "eigenvalue")
COLUMNS = ("m", "r", "trials", "frequency", "meant", "printed", "z_meant", "z_printed")


def parts(sizes: dict) -> list[dict]:
    return [{"m": m} for m in sizes["batches"]]


def measure(task: Task, part: dict) -> list[dict]:
    m, trials, population = part["m"], task.sizes["trials"], task.sizes["population"]
    scores = SCORES[task.setting](population, task.draw("search", "scores"))
    place = np.empty(population)  # of a batch among all, 0 for the best
    place[np.argsort(-scores)] = np.arange(population) / population
    draw = task.draw("search", "batches", m)
    best = np.array([place[draw.integers(population, size=m)].min() for _ in range(trials)])
    rows = []
    for r in task.sizes["fractions"]:
        hits, printed = best < r, (1 - r) ** m
        row = {"r": r, "trials": trials, "frequency": float(hits.mean()), "meant": 1 - printed, "printed": printed}
        rows.append(row | {"z_meant": z(hits, 1 - printed), "z_printed": z(hits, printed)})
    return rows


def eigenvalues(
    population: int, draw: np.random.Generator, points: int = 500, d: int = 32, batch: int = 20
) -> np.ndarray:
    """lambda_min of the Gram matrices of batches of features, NPC's score."""
    features = draw.normal(size=(points, d))
    chosen = draw.permuted(np.tile(np.arange(points), (population, 1)), axis=1)[:, :batch]
    blocks = features[chosen]  # (population, batch, d)
    return np.linalg.eigvalsh(blocks @ blocks.transpose(0, 2, 1))[:, 0]


SCORES = {"uniform": lambda population, draw: draw.random(population), "eigenvalue": eigenvalues}


def z(hits: np.ndarray, probability: float) -> float:
    """Distance of a frequency from a probability in standard errors; near 0 and 1 half a trial is the least error."""
    n = len(hits)
    error = np.sqrt(max(probability * (1 - probability) / n, (0.5 / n) ** 2))
    return float(abs(hits.mean() - probability) / error)
