"""`python -m bench perf lookahead`: MLMOC scores of all candidates, through the posterior and one candidate at a time.

Contenders, all in float64 on all cores, each in a process of its own with the same kernel blocks:

    posterior, from f_lin   both readings of (2.13); the time is that of S and of the scores, from given kernel blocks
    posterior, from f_L
    block formula           (2.12) candidate by candidate: K_LL is factorised and f_lin had once, outside the clock;
                            then v = K_LL^-1 K_Lx' by two triangular solves, and (2.12) for all x at once
    re-solve                (2.11) candidate by candidate: Cholesky of the kernel of L + 1 points, outputs for all x
    retraining              SGD, 15 epochs per candidate from the weights of f_L, and its outputs on all candidates
    kernel blocks           the pNTK of that network on the L + U images: what the forms above take as given
    add, score again        a step of sequential querying
    badge, by factors       BADGE's choice of 100 among U rank-one embeddings that are never made
    badge, materialised     the same k-means++ on the embeddings, (U, 640 O), making them included

The candidate-by-candidate ones are timed on a sample of candidates; their times for all are extrapolated, and marked.
"""

import json
import os
import sys
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from bench import nets
from bench.core import machine
from bench.core.errors import UserError
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


@dataclass(frozen=True)
class Case:
    labelled: int = 500
    candidates: int = 4000
    outputs: int = 10
    group: str = "contenders"


BASE = Case()

COLUMNS = [
    *("labelled", "candidates", "outputs", "group", "contender", "seconds", "sample", "repeats", "foreign"),
    *("matrices", "note", "processor"),
]
CONTENDERS = (*READINGS, *SAMPLE, "kernel blocks", "add, score again")
BADGE = ("badge, by factors", "badge, materialised")
GROWTH = {"labelled": "L", "candidates": "U", "outputs": "O"}
FACTORS = (0.25, 2)  # of the size of the contenders

# (what, against, how many times as fast at least, or None: only shown)
BARS = [
    *((reading, "re-solve", 30.0) for reading in READINGS),
    *((reading, "block formula", 8.0) for reading in READINGS),
    ("kernel blocks and posterior", "retraining", None),
    (*BADGE, None),
]
MATRICES = 2.0  # most memory, in units of U x U numbers, K_UU and S included


def run(out: Path, base: Case = BASE, only: str | None = None, patience: float = 60.0) -> pd.DataFrame:
    """Measure every contender at the size `base` and how the posterior form grows from there; write the table.

    Before each measurement the machine has `patience` seconds to become quiet.
    """
    from bench.studies.lookahead.run import tables

    jobs = [(base, contender) for contender in CONTENDERS]
    jobs += [(replace(base, group="badge"), contender) for contender in BADGE]
    for what in GROWTH:
        sizes = [max(2, int(factor * getattr(base, what))) for factor in FACTORS]
        jobs += [(replace(base, **{what: n}, group=f"growth in {what}"), name) for n in sizes for name in READINGS]
    on, rows = f"{machine.processor()}, {os.cpu_count()} cores", []
    for case, contender in jobs:
        if only and only not in f"{case} {contender}":
            continue
        if (foreign := quiet.wait(patience)) > quiet.FOREIGN:
            say(f"others use {foreign:.0%} of this machine; numbers below are marked")
        with turns.Program(
            [sys.executable, "-m", "bench.tools.perf.lookahead", json.dumps(asdict(case)), contender]
        ) as program:
            found = program.turn()
        rows.append(asdict(case) | {"contender": contender, "note": "", "processor": on} | found)
        size = f"L = {case.labelled}, U = {case.candidates}, O = {case.outputs}"
        say(f"{contender:<24}{size:<32}{_words(rows[-1])}")
        tables.write(pd.DataFrame(rows, columns=COLUMNS), out)
    return pd.DataFrame(rows, columns=COLUMNS)


def _words(row: dict) -> str:
    if "seconds" not in row:
        return row["note"]
    extrapolated = f"  (extrapolated from {row['sample']})" if row["sample"] < row["candidates"] else ""
    memory = f", {row['matrices']:.2f} U x U matrices" if "matrices" in row else ""
    marked = "" if row["foreign"] <= quiet.FOREIGN else f"  (others used {row['foreign']:.0%} of the machine)"
    return f"{row['seconds']:.4g} s{memory}{extrapolated}{marked}"


def bars(table: pd.DataFrame) -> pd.DataFrame:
    """One row per ratio within the run: the one wanted, the one had, and whether."""
    table = table[table.group.isin(("contenders", "badge")) & table.seconds.notna()].set_index("contender")
    seconds = dict(table.seconds)
    if "kernel blocks" in seconds and READINGS[0] in seconds:
        seconds["kernel blocks and posterior"] = seconds["kernel blocks"] + seconds[READINGS[0]]
    rows = []
    for what, against, wanted in BARS:
        had = seconds[against] / seconds[what] if {what, against} <= set(seconds) else None
        rows.append({"what": what, "against": against, "quantity": "times as fast", "wanted": wanted, "had": had})
    for what in READINGS:
        had = table.matrices.get(what)
        rows.append({"what": what, "against": "", "quantity": "U x U matrices", "wanted": MATRICES, "had": had})
    return pd.DataFrame([row | {"met": _met(**row)} for row in rows])


def _met(quantity: str, wanted: float | None, had: float | None, **_: str) -> str:
    if had is None:
        return "not measured"
    if wanted is None:
        return ""
    return "yes" if (had >= wanted if quantity == "times as fast" else had <= wanted) else "no"


def inputs(case: Case) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Kernel blocks of points with random features, labels less outputs, and outputs: what `posterior` wants."""
    normal = partial(torch.randn, generator=torch_stream(0, "data"), dtype=torch.float64)
    labelled, candidates = normal(case.labelled, 1000) / 1000**0.5, normal(case.candidates, 1000) / 1000**0.5
    k_ll, k_ul, k_uu = labelled @ labelled.T, candidates @ labelled.T, candidates @ candidates.T
    for kernel in (k_ll, k_uu):
        kernel.diagonal().add_(0.1)  # what every point has for itself
    return k_ll, k_ul, k_uu, normal(case.labelled, case.outputs), normal(case.candidates, case.outputs)


def measured(case: Case, contender: str) -> dict:
    """Seconds for all candidates, from how many, and for the posterior form also its peak memory."""
    if contender in ("retraining", "kernel blocks"):
        return _network(case, contender)
    if contender in BADGE:
        return _badge(case, contender)
    k_ll, k_ul, k_uu, residual, prior = inputs(case)
    labels = torch.eye(case.outputs).double()[prior.argmax(1)]
    if contender in SAMPLE:
        ahead = {"block formula": block, "re-solve": resolve}[contender](k_ll, k_ul, k_uu, residual, prior)
        sample = min(SAMPLE[contender], case.candidates)
        value = partial(distance, reference=prior)
        timing = quiet.measure(lambda: one_by_one(ahead, labels[:sample], value), budget=20)
        return _extrapolated(timing, sample, case)
    s = k_uu.clone()  # given, and overwritten
    reference = prior if contender == READINGS[1] else None
    if contender == "add, score again":
        known = posterior(k_ll, k_ul, s, residual, prior)
        timing = quiet.measure(lambda: mlmoc(add(known, 0, labels[0]), labels), budget=20)
        return asdict(timing) | {"sample": case.candidates}
    before = turns.memory("VmRSS:")
    timing = quiet.measure(
        lambda: mlmoc(posterior(k_ll, k_ul, s, residual, prior), labels, reference),
        budget=20,
        prepare=lambda: s.copy_(k_uu),
    )
    matrices = 1 + (turns.memory("VmHWM:") - before) / s.nbytes
    return asdict(timing) | {"sample": case.candidates, "matrices": matrices}


def _network(case: Case, contender: str) -> dict:
    """Retraining on each candidate, or the kernel that spares it; on noise, which costs what images cost."""
    net = nets.build(NET, SHAPE, case.outputs, WIDTH, torch_stream(0, "init")).eval()
    x = torch.randn(case.labelled + case.candidates, *SHAPE, generator=torch_stream(0, "data"))
    if contender == "kernel blocks":
        timing = quiet.measure(lambda: gram(net.double(), x.double(), output="pseudo"), repeats=1, at_most=1)
        return asdict(timing) | {"sample": case.candidates}
    y = torch.arange(case.labelled) % case.outputs
    query = Query(net, x[: case.labelled], y, x[case.labelled :], RECIPE)
    sample = min(SAMPLE[contender], case.candidates)
    timing = quiet.measure(lambda: naive.scores(query, range(sample), EPOCHS, 0), repeats=1, at_most=1)
    return _extrapolated(timing, sample, case)


def _badge(case: Case, contender: str) -> dict:
    h = torch.randn(case.candidates, FEATURES, generator=torch_stream(0, "features"), dtype=torch.float64)
    q = torch.randn(case.candidates, case.outputs, generator=torch_stream(0, "factors"), dtype=torch.float64)
    work = badge.kmeans_plus_plus if contender == BADGE[0] else materialised
    size = min(CENTRES, case.candidates)
    return asdict(quiet.measure(lambda: work(h, q, size, stream(0, "query")), budget=20)) | {"sample": case.candidates}


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


def _extrapolated(timing: quiet.Timing, sample: int, case: Case) -> dict:
    return asdict(timing) | {"seconds": timing.seconds * case.candidates / sample, "sample": sample}


if __name__ == "__main__":
    torch.set_num_threads(os.cpu_count())
    try:
        turns.serve(time=lambda: measured(Case(**json.loads(sys.argv[1])), sys.argv[2]))
    except UserError as error:
        sys.exit(str(error))
