"""Run one cell in this process: lock it, continue or start it, write the record last."""

import importlib
from dataclasses import asdict
from pathlib import Path

from bench import data, device, digest, grid, provenance, records
from bench.cells import Cell
from bench.progress import say
from bench.resume import Journal, sole_run


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
        identity = f"{study} {cell} settings {grid.fingerprint(settings)} code {code} on {chosen.type}"
        if (
            out.is_file()
            and grid.meta_path(out).is_file()
            and records.read_json(grid.meta_path(out))["identity"] == identity
        ):
            say(f"{out}: done already")
            return out
        journal = Journal(resume, identity, chosen, save_every)
        journal.open()
        say(f"{identity}, {threads} threads, attempt {journal.attempts}")
        source = data.load(cell.dataset, root, settings["average_pool"], settings["statistics"], device=chosen)
        found = importlib.import_module(f"bench.studies.{study}").run(cell, settings, source, chosen, journal)
        common = {"study": study, "scale": scale, "cell": asdict(cell), "data": source.describe()}
        meta = common | provenance.facts(chosen)
        seconds = {name: round(value, 3) for name, value in journal.seconds.items()}
        meta |= {"seconds": seconds | {"total": round(sum(journal.seconds.values()), 3)}}
        meta |= {"attempts": journal.attempts, "code": code, "identity": identity}
        records.write_json(grid.meta_path(out), meta)
        hashed = {"settings": settings, "settings_hash": grid.fingerprint(settings)}
        records.write_json(out, common | hashed | found | {"schema": records.VERSION, "device": chosen.type})
        journal.remove()
    say(f"{out}: written")
    return out
