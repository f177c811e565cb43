"""Run one cell in this process: lock it, continue or start it, write the record last."""

import importlib
from dataclasses import asdict
from pathlib import Path

from bench import data, device, digest, grid, provenance, records
from bench.cells import Cell
from bench.locks import sole_run
from bench.progress import say
from bench.resume import Journal


def run(
    study: str,
    scale: str,
    cell: Cell,
    settings: dict,
    root: str,
    out: Path,
    *,
    where: str = "auto",
    threads: int = 1,
    save_every: int = 10,
) -> Path:
    """Compute a cell and write `out` (its record) and, beside it, its .meta.json."""
    resume = grid.resume_path(out)
    code = digest.of_cell(study, cell.dataset, cell.net, cell.strategy)
    with sole_run(resume.with_suffix(".lock")):
        chosen = device.choose(where)
        device.settle(chosen, threads)
        source = data.load(cell.dataset, root, settings["average_pool"], settings["statistics"], device=chosen)
        made_of = {
            "settings": grid.fingerprint(settings),
            "code": code,
            "data": source.checksum[:12],
            "on": chosen.type,
        }
        identity = " ".join([study, str(cell), *(f"{name} {value}" for name, value in made_of.items())])
        if _is_done(out, identity):
            say(f"{out}: done already")
            resume.unlink(missing_ok=True)
            return out
        journal = Journal(resume, identity, chosen, save_every)
        journal.open()
        say(f"{identity}, {threads} threads, attempt {journal.attempts}")
        found = importlib.import_module(f"bench.studies.{study}").run(cell, settings, source, chosen, journal)

        common = {"study": study, "scale": scale, "cell": asdict(cell), "data": source.describe()}
        how = {"identity": identity, "code": code, "seconds": journal.total()}
        how |= {"seconds_per_cycle": journal.per_cycle(), "attempts": journal.attempts}
        out.unlink(missing_ok=True)  # an older record must not stand beside the new account
        records.write_json(grid.meta_path(out), common | provenance.facts(chosen) | how)
        hashed = {"settings": settings, "settings_hash": grid.fingerprint(settings)}
        records.write_json(out, common | hashed | found | {"schema": records.VERSION, "device": chosen.type})
        journal.remove()
    say(f"{out}: written")
    return out


def _is_done(out: Path, identity: str) -> bool:
    """Whether the record exists and was made from the same settings, code and data."""
    meta = grid.meta_path(out)
    return out.is_file() and meta.is_file() and records.read_json(meta)["identity"] == identity
