"""Which cells of a scale are done, running, failed or missing, without asking Snakemake."""

from collections import Counter

from bench import grid
from bench.locks import is_running


def report(config: dict) -> str:
    lines = [f"scale {config['scale']}", f"{'study':<12}{'done':>8}{'running':>9}{'failed':>8}{'missing':>9}"]
    notes = []
    for study in grid.STUDIES:
        counts: Counter[str] = Counter()
        for cell in grid.cells(config["lookahead"]["panels"], config["seeds"]):
            record = grid.record_path(config["scale"], study, cell)
            state, note = _state(record)
            counts[state] += 1
            if note:
                notes.append(f"{state} {record}: {note}")
        lines.append(f"{study:<12}{counts['done']:>8}{counts['running']:>9}{counts['failed']:>8}{counts['missing']:>9}")
    return "\n".join(lines + notes)


def _state(record) -> tuple[str, str]:
    """State of a cell and the last thing its log says, where that helps."""
    resume = grid.resume_path(record)
    if is_running(resume.with_suffix(".lock")):
        return "running", _last_line(grid.log_path(record))
    if record.is_file():
        return "done", ""
    if grid.log_path(record).is_file() or resume.is_file():
        again = " (would continue where it stopped)" if resume.is_file() else ""
        return "failed", _last_line(grid.log_path(record)) + again
    return "missing", ""


def _last_line(log) -> str:
    try:
        return next((line.strip() for line in reversed(log.read_text().splitlines()) if line.strip()), "empty log")
    except OSError:
        return "no log"
