"""Run one cell in this process: lock it, continue or start it, write the record last."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from bench.core import device, digest, paths, provenance, records
from bench.core import study as studies
from bench.core.cell import Cell
from bench.core.journal import Journal
from bench.core.locks import sole_run
from bench.core.progress import say

DONE = {"done": True}  # the last state of a stage


def run(
    study: str,
    scale: str,
    cell: Cell,
    settings: dict,
    load: Callable[[torch.device], Any],
    out: Path,
    *,
    where: str = "auto",
    threads: int = 1,
    save_every: int = 10,
) -> Path:
    """Compute a cell and write `out` (its record) and, beside it, its .meta.json.

    `load` gives the cell's data on a device, or None for a cell without: something with a `checksum` and `describe()`.
    """
    with sole_run(paths.lock_path(out)):
        chosen, data, code, identity = _begin(study, cell, settings, load, where, threads)
        journal = Journal(paths.resume_path(out), identity, chosen, save_every)
        if _is_done(out, identity):
            say(f"{out}: done already")
            journal.remove()
            return out
        journal.open()
        say(f"{identity}, {threads} threads, attempt {journal.attempts}")
        found = studies.part(study, "run").run(cell, settings, data, chosen, journal)

        common = {"study": study, "scale": scale, "cell": asdict(cell), "data": data.describe() if data else None}
        how = {"identity": identity, "code": code, "seconds": journal.total()}
        how |= {"seconds_per_step": journal.per_step(), "attempts": journal.attempts}
        how |= {"peak_bytes": {name: list(by_step.items()) for name, by_step in journal.peaks.items()}}
        out.unlink(missing_ok=True)  # an older record must not stand beside the new account
        records.write_json(paths.meta_path(out), common | provenance.facts(chosen) | how)
        hashed = {"settings": settings, "settings_hash": records.fingerprint(settings)}
        records.write_json(out, common | hashed | found | {"schema": records.VERSION, "device": chosen.type})
        journal.remove()
    say(f"{out}: written")
    return out


def run_stage(
    study: str,
    stage: str,
    cell: Cell,
    settings: dict,
    load: Callable[[torch.device], Any],
    out: Path,
    *,
    where: str = "auto",
    threads: int = 1,
    save_every: int = 10,
) -> None:
    """Do one stage of a cell, for the run that will write `out`; see `bench.core.study`.

    What it makes, and the file it resumes from, are in the cell's scratch folder, which goes with the record.
    """
    chosen, data, _, identity = _begin(study, cell, settings, load, where, threads)
    folder = Journal(paths.resume_path(out), identity, chosen).scratch()
    with sole_run(folder / f"{stage}.lock"):
        journal = Journal(folder / f"{stage}.pt", identity, chosen, save_every)
        journal.open()
        if journal.state != DONE:
            say(f"{identity}, stage {stage}, {threads} threads, attempt {journal.attempts}")
            studies.part(study, "run").stage(stage, cell, settings, data, chosen, journal, folder)
            journal.save(DONE)
    say(f"{out}: stage {stage} done")


def _begin(
    study: str, cell: Cell, settings: dict, load: Callable[[torch.device], Any], where: str, threads: int
) -> tuple[torch.device, Any, str, str]:
    """The device, settled, the data on it, the digest of the code, and the identity that these give the run."""
    code = digest.of_cell(study, cell)
    chosen = device.choose(where)
    device.settle(chosen, threads)
    data = load(chosen)
    made_of = {"settings": records.fingerprint(settings), "code": code}
    made_of |= {"data": data.checksum[:12] if data else "none", "on": chosen.type}
    return chosen, data, code, " ".join([study, str(cell), *(f"{name} {value}" for name, value in made_of.items())])


def _is_done(out: Path, identity: str) -> bool:
    """Whether the record exists and was made from the same settings, code and data."""
    meta = paths.meta_path(out)
    return out.is_file() and meta.is_file() and records.read_json(meta)["identity"] == identity
