"""Which cells of a scale are done, running, failed or missing, without asking Snakemake."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.core import paths, study
from bench.core.locks import is_running

STATES = ("done", "running", "failed", "missing")


def states(config: dict, name: str) -> Iterator[tuple[str, str, str]]:
    """(cell, state, the last thing its log says where that helps) of every cell of a study."""
    for cell in study.load(name).cells(config):
        state, note = _state(paths.record_path(config["scale"], name, cell))
        yield str(cell), state, note


def report(config: dict, listed: bool = False) -> str:
    """Counts by study, and what keeps cells from being done; `listed`: every cell."""
    lines = [f"scale {config['scale']}", f"{'study':<12}" + "".join(f"{state:>9}" for state in STATES)]
    notes = []
    for name in config["studies"]:
        counts: Counter[str] = Counter()
        for cell, state, note in states(config, name):
            counts[state] += 1
            if note or listed:
                notes.append(f"{state} {name} {cell}" + (f": {note}" if note else ""))
        lines.append(f"{name:<12}" + "".join(f"{counts[state]:>9}" for state in STATES))
    return "\n".join(lines + notes)


def _state(record: Path) -> tuple[str, str]:
    resume, log = paths.resume_path(record), paths.log_path(record)
    if is_running(paths.lock_path(record)):
        return "running", _last_line(log)
    if record.is_file():
        return "done", ""
    last = _last_line(log)
    if last.endswith(": written") and not resume.is_file():  # its record was removed
        return "missing", ""
    if log.is_file() or resume.is_file():
        again = " (would continue where it stopped)" if resume.is_file() and "continues" not in last else ""
        return "failed", last + again
    return "missing", ""


def _last_line(log: Path) -> str:
    try:
        return next((line.strip() for line in reversed(log.read_text().splitlines()) if line.strip()), "empty log")
    except OSError:
        return "no log"
