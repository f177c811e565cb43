"""`python -m bench perf lookahead`: MLMOC scores of all candidates, through the posterior and one candidate at a time.

docs/speed.md says what each contender does. All work in float64 on all cores, each in a process of its own, with equal
kernel blocks. Those that go candidate by candidate are timed on a sample; their times for all are extrapolated.
"""

import json
import os
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from bench import nets
from bench.core import csv, machine
from bench.core.progress import say
from bench.core.seeds import stream, torch_stream
from bench.kernels.empirical import gram
from bench.kernels.lookahead import add, block, distance, mlmoc, one_by_one, posterior, resolve
from bench.learn.train import Recipe
from bench.strategies import Query, badge, naive, top
from bench.strategies._distances import squared_distances
from bench.tools.perf import quiet, turns

NET, WIDTH, SHAPE = "wrn", 64, (1, 14, 14)  # a narrow network on pooled MNIST, much as at scale cpu
RECIPE = Recipe("mse", "onecycle", True, 1.25, None, 0.9, 1e-4, epochs=200, batch=128, augment="none")
EPOCHS = 15  # of retraining
FEATURES, CENTRES = 640, 100  # of BADGE: the thesis' width, and how many are chosen
SAMPLE = {"block formula": 200, "re-solve": 100, "retraining": 3}  # candidates timed
READINGS = ("posterior, from f_lin", "posterior, from f_L")
CONTENDERS = (*READINGS, *SAMPLE, "kernel blocks", "add, score again")
BADGE = ("badge, by factors", "badge, materialised")


@dataclass(frozen=True)
class Case:
    labelled: int = 500  # L
    candidates: int = 4000  # U
    outputs: int = 10  # O
    group: str = "contenders"


BASE = Case()
FACTORS = (0.25, 2)  # of the size of each of the three, one at a time, for the posterior form alone
COLUMNS = [
    *("labelled", "candidates", "outputs", "group", "contender", "seconds", "sample", "repeats", "foreign"),
    *("matrices", "note", "processor"),
]


def run(out: Path, base: Case = BASE, only: str | None = None, patience: float = 60.0) -> pd.DataFrame:
    """Measure every contender at the size `base`, and the posterior form at other sizes; write the table after each.

    Before each measurement the machine has `patience` seconds to become quiet.
    """
    jobs = [(base, name) for name in CONTENDERS] + [(replace(base, group="badge"), name) for name in BADGE]
    for what in ("labelled", "candidates", "outputs"):
        sizes = [max(2, int(factor * getattr(base, what))) for factor in FACTORS]
        jobs += [(replace(base, **{what: n}, group=f"growth in {what}"), name) for n in sizes for name in READINGS]
    on, rows = f"{machine.processor()}, {os.cpu_count()} cores", []
    for case, contender in jobs:
        if only and only not in f"{case} {contender}":
            continue
        if (foreign := quiet.wait(patience)) > quiet.FOREIGN:
            say(f"others use {foreign:.0%} of this machine; numbers below are marked")
        command = [sys.executable, "-m", "bench.tools.perf.lookahead", json.dumps(asdict(case)), contender]
        with closing(turns.Program(command)) as program:
            rows.append(asdict(case) | {"contender": contender, "note": "", "processor": on} | program.turn())
        size = f"L = {case.labelled}, U = {case.candidates}, O = {case.outputs}"
        say(f"{contender:<24}{size:<32}{turns.words(rows[-1])}")
        csv.write(pd.DataFrame(rows, columns=COLUMNS), out)
    return pd.DataFrame(rows, columns=COLUMNS)


def inputs(case: Case) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Kernel blocks of points with random features, labels less outputs, and outputs: what `posterior` wants."""
    normal = partial(torch.randn, generator=torch_stream(0, "data"), dtype=torch.float64)
    labelled, candidates = normal(case.labelled, 1000) / 1000**0.5, normal(case.candidates, 1000) / 1000**0.5
    k_ll, k_ul, k_uu = labelled @ labelled.T, candidates @ labelled.T, candidates @ candidates.T
    for kernel in (k_ll, k_uu):
        kernel.diagonal().add_(0.1)  # what every point has for itself
    return k_ll, k_ul, k_uu, normal(case.labelled, case.outputs), normal(case.candidates, case.outputs)


def measured(case: Case, contender: str) -> dict:
    """Seconds for all candidates, from a sample of how many; of the posterior form also its peak memory."""
    sample, more = min(SAMPLE.get(contender, case.candidates), case.candidates), {}
    if contender in ("retraining", "kernel blocks"):
        timing = quiet.measure(_network(case, contender, sample), repeats=1, at_most=1)
    elif contender in BADGE:
        timing = quiet.measure(_badge(case, contender), budget=20)
    else:
        k_ll, k_ul, k_uu, residual, prior = inputs(case)
        labels = torch.eye(case.outputs).double()[prior.argmax(1)]
        if contender in SAMPLE:
            ahead = {"block formula": block, "re-solve": resolve}[contender](k_ll, k_ul, k_uu, residual, prior)
            value = partial(distance, reference=prior)
            timing = quiet.measure(lambda: one_by_one(ahead, labels[:sample], value), budget=20)
        elif contender == "add, score again":
            known = posterior(k_ll, k_ul, k_uu, residual, prior)
            timing = quiet.measure(lambda: mlmoc(add(known, 0, labels[0]), labels), budget=20)
        else:
            s, before = k_uu.clone(), turns.memory("VmRSS:")  # given, and overwritten
            reference = prior if contender == READINGS[1] else None
            timing = quiet.measure(
                lambda: mlmoc(posterior(k_ll, k_ul, s, residual, prior), labels, reference),
                budget=20,
                prepare=lambda: s.copy_(k_uu),
            )
            more = {"matrices": 1 + (turns.memory("VmHWM:") - before) / s.nbytes}
    return asdict(timing) | {"seconds": timing.seconds * case.candidates / sample, "sample": sample} | more


def _network(case: Case, contender: str, sample: int) -> Callable[[], object]:
    """Retraining on each candidate, or the kernel that spares it; on noise, which costs what images cost."""
    net = nets.build(NET, SHAPE, case.outputs, WIDTH, torch_stream(0, "init")).eval()
    x = torch.randn(case.labelled + case.candidates, *SHAPE, generator=torch_stream(0, "data"))
    if contender == "kernel blocks":
        return lambda: gram(net.double(), x.double(), output="pseudo")
    y = torch.arange(case.labelled) % case.outputs
    query = Query(net, x[: case.labelled], y, x[case.labelled :], RECIPE)
    return lambda: naive.scores(query, range(sample), EPOCHS, 0)


def _badge(case: Case, contender: str) -> Callable[[], object]:
    h = torch.randn(case.candidates, FEATURES, generator=torch_stream(0, "features"), dtype=torch.float64)
    q = torch.randn(case.candidates, case.outputs, generator=torch_stream(0, "factors"), dtype=torch.float64)
    work = badge.kmeans_plus_plus if contender == BADGE[0] else materialised
    return lambda: work(h, q, min(CENTRES, case.candidates), stream(0, "query"))


def materialised(features: Tensor, factors: Tensor, size: int, stream: np.random.Generator) -> np.ndarray:
    """`badge.kmeans_plus_plus` the direct way, on embeddings that are all different."""
    embeddings = (factors[:, :, None] * features[:, None]).flatten(1)  # (U, O d)
    norms = embeddings.square().sum(1)  # (U,)
    chosen, nearest = [int(top(norms, 1, stream)[0])], torch.full_like(norms, torch.inf)
    while len(chosen) < size:
        centre = chosen[-1]
        nearest = nearest.minimum(squared_distances(embeddings @ embeddings[centre], norms, norms[centre]))
        chosen.append(int(stream.choice(len(norms), p=(nearest / nearest.sum()).numpy())))
    return np.array(chosen)


if __name__ == "__main__":
    torch.set_num_threads(os.cpu_count())
    turns.serve(lambda: measured(Case(**json.loads(sys.argv[1])), sys.argv[2]))
