"""`python -m bench perf pntk`: the in-place Cholesky factor beside torch's and scipy's, and what a measurement of a
kernel, full or pseudo, consists of: the kernel, a cross block, its factor, a solve and its smallest eigenvalue.

Each contender, and each size of a measurement, is a program of its own; they take turns, docs/speed.md says how.
"""

import json
import math
import os
import sys
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.linalg
import torch
from torch import Tensor

from bench import nets
from bench.core import csv, machine
from bench.core.errors import UserError
from bench.core.progress import say
from bench.core.seeds import torch_stream
from bench.kernels import spectrum
from bench.kernels.cholesky import Factor
from bench.kernels.empirical import gram
from bench.tools.perf import quiet, turns

SHAPE, TEST = (3, 32, 32), 100  # of an input; test points of a cross block
ROUNDS, BUDGET = 2, 10.0  # turns, and the seconds of one after which there is no other repetition
SIZES, DTYPES = (2000, 5000, 10000, 20000), ("float32", "float64")
SOLVERS = ("in place", "torch", "scipy")
PHASES = ("kernel", "cross block", "factor", "solve", "smallest eigenvalue")
SAME = 1e-3  # relative difference between log-determinants that are still equal in float32


@dataclass(frozen=True)
class Solver:
    """A kernel to factorise."""

    n: int
    dtype: str
    threads: int = os.cpu_count()
    group: str = "solver"


@dataclass(frozen=True)
class Study:
    """A measurement, with one thread and in float64: smallest eigenvalues of kernels are noise in float32."""

    points: int = 200  # N
    outputs: int = 10  # O
    width: int = 256
    output: str = "full"
    group: str = "base"
    dtype: str = "float64"
    threads: int = 1


BASE = Study()
GROWTH = {"points": (100, 500, 1000), "outputs": (2, 50), "width": (64, 1024)}  # one at a time
COLUMNS = [
    *(
        "group",
        "n",
        "dtype",
        "threads",
        "points",
        "outputs",
        "width",
        "output",
        "what",
        "note",
        "seconds",
        "seconds_by_round",
    ),
    *("repeats", "foreign", "processor_seconds", "peak_gib", "logdet", "processor", "measured_at"),
]


def cases() -> list[Solver | Study]:
    studies = [BASE, *(replace(BASE, **{what: n}, group=what) for what, sizes in GROWTH.items() for n in sizes)]
    solvers = [Solver(n, dtype, threads) for threads in (os.cpu_count(), 1) for n in SIZES for dtype in DTYPES]
    return [*solvers, *(replace(study, output=output) for study in studies for output in ("full", "pseudo"))]


def run(out: Path, only: str | None = None, patience: float = 60.0) -> pd.DataFrame:
    """Measure every case and write the table after each; the machine has `patience` seconds to become quiet.

    With `only`, the rows of other cases stay.
    """
    on, rows = f"{machine.processor()}, {os.cpu_count()} cores", []
    chosen = [case for case in cases() if not only or only in str(case)]
    if only and out.is_file():
        rows = [row for row in csv.read(out).to_dict("records") if not any(_is_of(row, case) for case in chosen)]
    for case in chosen:
        if (foreign := quiet.wait(patience)) > quiet.FOREIGN:
            say(f"others use {foreign:.0%} of this machine; numbers below are marked")
        now = {"processor": on, "measured_at": datetime.now(UTC).isoformat(timespec="minutes")}
        for what, found in measured(case).items():
            say(f"{what:<20} {case}: {turns.words(found)}")
            rows.append(asdict(case) | {"what": what, "note": ""} | now | found)
        csv.write(pd.DataFrame(rows, columns=COLUMNS), out)
    return pd.DataFrame(rows, columns=COLUMNS)


def _is_of(row: dict, case: Solver | Study) -> bool:
    return all(row[key] == value for key, value in asdict(case).items())


def measured(case: Solver | Study) -> dict[str, dict]:
    """The best turn of each contender, or of each phase."""
    with ExitStack() as stack:
        command = ["env", *(f"{library}_NUM_THREADS={case.threads}" for library in ("OMP", "MKL", "OPENBLAS"))]
        command += [sys.executable, "-m", "bench.tools.perf.pntk", json.dumps(asdict(case))]
        programs = [[*command, name] for name in SOLVERS] if isinstance(case, Solver) else [command]
        programs = [stack.enter_context(closing(turns.Program(each))) for each in programs]
        found = [
            {what: turn for program in programs for what, turn in program.turn().items()}
            for _ in range(ROUNDS if case.threads > 1 else 1)
        ]
    if failed := [turn["note"] for turn in found if "note" in turn]:
        raise UserError(f"{case}: {failed[0]}")
    results = {what: turns.best([turn[what] for turn in found]) for what in found[0]}
    logs = [result["logdet"] for result in results.values() if "logdet" in result]
    if not all(math.isclose(each, logs[0], rel_tol=SAME) for each in logs):
        raise UserError(f"{case}: contenders differ in the log-determinant: {logs}")
    return results


def fill(a: Tensor) -> None:
    """1 / (1 + |i - j|), and 1.1 on the diagonal: positive definite, without a second matrix to copy it from."""
    n = len(a)
    values = 1 / (1 + np.abs(np.arange(1 - n, n)))  # (2 n - 1,)
    a.numpy()[:] = np.lib.stride_tricks.sliding_window_view(values, n)[::-1]
    a.diagonal().add_(0.1)


def factorise(name: str, a: Tensor) -> Tensor:
    """The diagonal of L."""
    if name == "in place":
        return Factor(a).matrix.diagonal()
    if name == "torch":
        return torch.linalg.cholesky(a).diagonal()
    a = a.numpy().T  # Fortran's order, the only one in which scipy overwrites
    return torch.from_numpy(scipy.linalg.cholesky(a, lower=True, overwrite_a=True, check_finite=False)).diagonal()


def solver_turn(case: Solver, name: str) -> dict:
    a, values = torch.empty(case.n, case.n, dtype=getattr(torch, case.dtype)), []
    fill(a)
    before = turns.memory("VmRSS:")

    def work() -> None:
        values.append(2 * factorise(name, a).double().log().sum().item())

    timing = quiet.timed(work, lambda: fill(a), budget=BUDGET)
    extra = (turns.memory("VmHWM:") - before) / 2**30  # beside the kernel
    return {name: timing | {"peak_gib": extra, "logdet": values[-1]}}


def study_turn(case: Study) -> dict:
    """Every phase, each from what the one before gave."""
    net = nets.build("fcn", SHAPE, case.outputs, case.width, torch_stream(0, "init")).eval().double()
    x = torch.randn(case.points + TEST, *SHAPE, generator=torch_stream(0, "data"), dtype=torch.float64)
    x, test = x[: case.points], x[case.points :]
    kernel = gram(net, x, output=case.output)  # (n, n)
    a, factors = kernel.clone(), []
    y = torch.randn(len(a), 1, generator=torch_stream(0, "labels"), dtype=a.dtype)
    works = (
        lambda: gram(net, x, output=case.output),
        lambda: gram(net, test, x, output=case.output),
        lambda: factors.append(Factor(a)),
        lambda: factors[-1].solve(y),
        lambda: spectrum.ends(factors[-1]),
    )
    found = {}
    for phase, work in zip(PHASES, works, strict=True):
        prepare = partial(a.copy_, kernel) if phase == "factor" else lambda: None
        found[phase] = quiet.timed(work, prepare, budget=BUDGET) | {"n": len(a), "peak_gib": math.nan}
    return found


def main(given: dict, *name: str) -> None:
    if name:
        factorise(*name, torch.eye(500))  # libraries load here
    turns.serve(lambda: solver_turn(Solver(**given), *name) if name else study_turn(Study(**given)))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), *sys.argv[2:])
