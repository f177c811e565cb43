"""The best of m batches: probabilities by hand, and that a frequency is judged by its spread."""

import numpy as np
import pytest
import torch

from bench.studies.theory.experiments import search
from bench.studies.theory.task import Task

SIZES = {"batches": [1, 50], "fractions": [0.1, 0.5], "trials": 2000, "population": 1000}


@pytest.mark.parametrize("setting", ["uniform", "eigenvalue"])
def test_frequencies(setting):
    task = Task(setting, SIZES | {"population": 200 if setting == "eigenvalue" else 1000}, 0, torch.device("cpu"))
    once, often = (search.measure(task, part) for part in search.parts(SIZES))
    assert [row["meant"] for row in once] == [pytest.approx(0.1), 0.5]
    assert all(row["z_meant"] < 5 for row in once + often)
    assert all(row["z_printed"] > 5 for row in often)
    assert {*once[0], "m"} == set(search.COLUMNS)


def test_z_by_hand():
    hits = np.array([True] * 60 + [False] * 40)
    assert search.z(hits, 0.5) == pytest.approx(2)  # 0.1 / sqrt(0.25 / 100)
    assert search.z(np.ones(100, dtype=bool), 1.0) == 0
    assert search.z(np.zeros(100, dtype=bool), 1.0) == pytest.approx(200)  # half a trial is the least error


def test_eigenvalues_against_a_loop():
    found = search.eigenvalues(5, np.random.default_rng(0), points=8, d=4, batch=3)
    draw = np.random.default_rng(0)
    features = draw.normal(size=(8, 4))
    chosen = draw.permuted(np.tile(np.arange(8), (5, 1)), axis=1)[:, :3]
    for value, batch in zip(found, chosen, strict=True):
        assert value == pytest.approx(np.linalg.eigvalsh(features[batch] @ features[batch].T)[0])
        assert len(set(batch)) == 3
