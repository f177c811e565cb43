"""`python -m bench perf ssl`: what semi-supervised studies spend their time on, beside peers: a FixMatch step and its
views, DARP's refresh of all pseudo-labels, and NPC's search for a batch.

Each case is a program of its own, which times all contenders; docs/speed.md says how. The module is not called ssl,
which is one of Python's own.
"""

import json
import os
import sys
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from bench.core import csv, machine
from bench.core.errors import UserError
from bench.core.progress import say
from bench.tools.perf import darp_refresh, fixmatch_step, npc_search, quiet, turns
from bench.tools.perf.darp_refresh import Refresh
from bench.tools.perf.fixmatch_step import Step
from bench.tools.perf.npc_search import Search

Case = Step | Refresh | Search
KINDS = {"step": (Step, fixmatch_step.turn), "darp": (Refresh, darp_refresh.turn), "npc": (Search, npc_search.turn)}
STEPS = (  # NPC at scale cpu; the paper's batch, on a small net; a small batch, on the paper's net at half its width
    Step("digits", "wrn-small+stride=2", 128, batch=16, mu=4),
    Step("digits", "wrn-small+stride=2", 128, batch=64, mu=7),
    Step("natural", "wrn-small+stride=2", 128, batch=64, mu=7),
    Step("natural", "wrn-28", 1, batch=8, mu=7),
)
POOLS = ((10000, 10), (50000, 10), (50000, 100))  # rows, classes
SEARCHES = ((30, 20), (70, 20), (130, 20), (300, 200), (900, 200))  # N, Q
COLUMNS = [
    *("group", "views", "net", "width", "batch", "mu", "rows", "classes", "points", "bought", "threads"),
    *("what", "note", "count", "sample", "seconds", "processor_seconds", "off", "repeats", "foreign"),
    *("processor", "measured_at"),
]


def cases() -> list[Case]:
    refreshes = [*(Refresh(*pool) for pool in POOLS), Refresh(*POOLS[-1], os.cpu_count())]
    return [*STEPS, *refreshes, *(Search(*sizes) for sizes in SEARCHES)]


def run(out: Path, only: str | None = None, patience: float = 3.0) -> pd.DataFrame:
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
            say(f"{what:<22} {case}: {found['processor_seconds']:.4g} s of the processor")
            rows.append(asdict(case) | {"what": what, "note": ""} | now | found)
        csv.write(pd.DataFrame(rows, columns=COLUMNS), out)
    return pd.DataFrame(rows, columns=COLUMNS)


def _is_of(row: dict, case: Case) -> bool:
    return all(row[key] == value for key, value in asdict(case).items())


def measured(case: Case) -> dict[str, dict]:
    """What a program of its own finds of each contender, or of each part."""
    command = ["env", *(f"{library}_NUM_THREADS={case.threads}" for library in ("OMP", "MKL", "OPENBLAS"))]
    command += [sys.executable, "-m", "bench.tools.perf.semi", json.dumps(asdict(case))]
    with closing(turns.Program(command)) as program:
        found = program.turn()
    if "note" in found:
        raise UserError(f"{case}: {found['note']}")
    return found


def main(given: dict) -> None:
    kind, turn = KINDS[given["group"]]
    turns.serve(lambda: turn(kind(**given)))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
