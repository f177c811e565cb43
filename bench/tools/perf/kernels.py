"""`python -m bench perf kernels`: the kernel engine beside torch.func and, with --peers, neural-tangents.

The table keeps processors apart: a run replaces the rows of its own processor and leaves those of others.
"""

import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from bench.core import csv, machine
from bench.core.errors import UserError
from bench.core.progress import say
from bench.tools.perf import quiet, turns
from bench.tools.perf.contenders import Case, engine, measured

COLUMNS = [
    *("processor", "net", "width", "points", "output", "classes", "contender", "note", "parameters", "seconds"),
    *("seconds_by_round", "repeats", "foreign", "peak_gib", "trace", "norm", "gflop", "gemm_gflops", "gemm_fraction"),
    *("compilation", "engine", "measured_at"),
]
OUTPUTS = ("full", "pseudo")
NETS = (("fcn", 1024), ("convnet", 2), ("resnet18", 1), ("wrn-16", 1), ("wrn-28", 2))
WITH_PEERS = [Case(net, width, n, output) for n in (32, 256) for net, width in NETS for output in OUTPUTS]
ALONE = [
    *(Case(net, width, 1000) for net, width in (("convnet", 2), ("resnet18", 1))),  # the thesis' size
    *(Case("resnet18", 1, n, output) for n in (64, 128) for output in OUTPUTS),
    *(Case("convnet", 2, 32, output, o) for o in (5, 20, 40) for output in OUTPUTS),
    *(Case("wrn-16", k, 32, output) for k in (2, 4) for output in OUTPUTS),
]


def run(out: Path, peers: bool = False, only: str | None = None) -> pd.DataFrame:
    """Measure every case and write the table after each.

    Cases that this engine was measured at on this processor are kept, which is said, if they are whole: where a
    contender is missing, or others used the machine, all contenders are measured again, so that no ratio is between
    different times.
    """
    here = {"processor": f"{machine.processor()}, {os.cpu_count()} cores", "engine": engine()}
    rows = _earlier(out, here, strict=only is not None)
    names = ["ours", "torch.func", *(("neural-tangents 1", "neural-tangents 3") if peers else ())]
    jobs = [(case, names) for case in WITH_PEERS] + [(case, ["ours"]) for case in ALONE]
    jobs = [(case, contenders) for case, contenders in jobs if not only or only in str(case)]
    left = [(case, contenders) for case, contenders in jobs if not _whole(_of(rows, case, here), contenders)]
    if len(left) < len(jobs):
        say(f"{out}: keeping {len(jobs) - len(left)} cases measured earlier; to measure all in one go, remove it first")
    for case, contenders in left:
        if (foreign := quiet.wait()) > quiet.FOREIGN:
            say(f"others use {foreign:.0%} of this machine; numbers below are marked")
        old = _of(rows, case, here)
        results = measured(case, list(dict.fromkeys([*contenders, *(row["contender"] for row in old)])))
        if results["ours"].get("engine", here["engine"]) != here["engine"]:
            raise UserError("the engine's code was changed while it was being measured; start again")
        rows = [row for row in rows if row not in old]
        for contender, result in results.items():
            size = f"{case.net} {case.width}, N = {case.points}, O = {case.classes}, {case.output}"
            say(f"{contender:<18}{size:<44}{turns.words(result)}")
            now = {"measured_at": datetime.now(UTC).isoformat(timespec="minutes")}
            rows.append(here | asdict(case) | {"contender": contender, "note": ""} | now | result)
        csv.write(_table(rows), out)
    return _table(rows)


def _earlier(out: Path, here: dict[str, str], strict: bool) -> list[dict]:
    """What was measured before: on other processors, and of this engine on this one. Dropping is said, or refused."""
    if not out.is_file():
        return []
    rows = pd.read_csv(out, dtype={"note": str, "seconds_by_round": str}).fillna({"note": ""}).to_dict("records")
    kept = [row for row in rows if row["processor"] != here["processor"] or row["engine"] == here["engine"]]
    if len(kept) < len(rows):
        what = f"{out}: {len(rows) - len(kept)} rows of this processor are of another version of the engine"
        if strict:
            raise UserError(f"{what}; choose another folder with --out, or measure all, without --only")
        say(f"{what}; not kept")
    return kept


def _of(rows: list[dict], case: Case, here: dict[str, str]) -> list[dict]:
    """The rows of a case on this processor."""
    return [row for row in rows if all(row[key] == value for key, value in (here | asdict(case)).items())]


def _whole(rows: list[dict], contenders: list[str]) -> bool:
    """Whether all contenders were measured, and none of them while others used the machine."""
    had = {row["contender"] for row in rows if not row["foreign"] > quiet.FOREIGN}  # nan: not timed
    return had >= set(contenders)


def _table(rows: list[dict]) -> pd.DataFrame:
    """In order, whatever was measured first, with the fraction of the best GEMM rate seen on the processor."""
    table = pd.DataFrame(rows, columns=COLUMNS).sort_values(COLUMNS[:7], ignore_index=True)
    best = table.groupby("processor").gemm_gflops.transform("max")
    return table.assign(gemm_fraction=table.gflop / best / table.seconds)
