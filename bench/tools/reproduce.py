"""One command for a person: run the workflow of a scale, watch it, then say what came out or what went wrong."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.core import csv, paths, study
from bench.tools import status, watch, workflow

LISTED = 20  # failed cells
DEMONSTRATION = "Scale quick is a demonstration on stand-in images; it says nothing about the papers."


def reproduce(config: dict, scale: str, targets: list[str], cores: str, verbose: bool) -> int:
    """Make the targets, or everything with a report; Snakemake's exit code."""
    name = config["scale"]
    log, report = Path(f"results/{name}/logs/snakemake.log"), Path(f"results/{name}/report.html")
    chosen = ["--configfile", scale] if scale.endswith((".yaml", ".yml")) else ["--config", f"scale={scale}"]
    cells = sum(len(list(study.load(room).cells(config))) for room in config["studies"])
    _say(f"scale {name}, {cells} cells; Snakemake's own text goes to {log}")
    progress = watch.Progress(None if targets else cells, study.all_figures(), time.monotonic())
    line = watch.Line(sys.stdout)
    # Targets come first: --config and --configfile take every word that follows.
    code, text = _run([*targets, "--cores", cores, *chosen], log, progress, line, verbose)
    if progress.idle:
        line.end("nothing to do: everything asked for is there and up to date")
    elif progress.planned:
        line.end(progress.line(time.monotonic(), "failed" if code else "done"))
    if code == 0 and not targets and _is_due(name, report):
        progress.stage = "report"
        code, text = _run(["--report", str(report), *chosen], log, progress, line, verbose)
    line.end()
    if code:
        part = workflow.failing(text)
        _say(*([] if verbose else part), *_remedy(code, part, progress, log), *_failures(config, scale, progress))
    else:
        _say(*(_drawn(name, targets, progress) if targets else _outcome(name, report)))
    return code


def _run(
    words: list[str], log: Path, progress: watch.Progress, line: watch.Line, verbose: bool
) -> tuple[int, list[str]]:
    """Run Snakemake under one's eyes; its exit code and its text."""
    text = []
    with workflow.running(words, log) as run:
        try:
            for new in run.lines():
                text += new
                progress.read(new, now := time.monotonic())
                if verbose:
                    _say(*new)
                elif line.terminal or progress.planned:
                    line.show(progress.line(now), now)
        except KeyboardInterrupt:
            line.end(progress.line(time.monotonic(), "stopping"))
            raise
    return run.code(), text


def _is_due(name: str, report: Path) -> bool:
    """Whether a table or figure is newer than the report."""
    made = [*paths.tables_folder(name).glob("*"), *paths.figure_stem(name, "").glob("*")]
    return not report.is_file() or any(path.stat().st_mtime > report.stat().st_mtime for path in made)


def _outcome(name: str, report: Path) -> Iterator[str]:
    yield from _verdicts(paths.tables_folder(name) / "claims.csv", f"scale {name}")
    if name == "quick":
        yield DEMONSTRATION
    committed = paths.tables_folder("cpu") / "claims.csv"
    if name != "cpu" and committed.is_file():
        yield from _verdicts(committed, "the committed scale cpu")
    yield from ("", f"report   {report}", f"tables   {paths.tables_folder(name)}/")
    yield f"figures  {paths.figure_stem(name, '')}/"


def _verdicts(ledger: Path, what: str) -> Iterator[str]:
    from bench.report import claims

    table = claims.counts(csv.read(ledger))
    yield from ("", f"claims at {what}, by study and verdict")
    widest = max(map(len, table.index))
    yield " " * widest + "".join(f"  {verdict}" for verdict in table.columns)
    for room, row in table.iterrows():
        yield f"{room:<{widest}}" + "".join(f"{count:>{2 + len(verdict)}}" for verdict, count in row.items())


def _drawn(name: str, targets: list[str], progress: watch.Progress) -> Iterator[str]:
    """Where the figures are that were asked for, or drawn for something that was."""
    for figure in (each for each in study.all_figures() if each in targets or progress.done[each]):
        yield from (f"{paths.figure_stem(name, figure)}.{kind}" for kind in ("png", "pdf"))


def _remedy(code: int, part: list[str], progress: watch.Progress, log: Path) -> Iterator[str]:
    """What Snakemake's own words on its failure leave out."""
    if code > 128:
        yield f"Snakemake was killed by signal {code - 128}, perhaps because memory ran out."
    if code > 128 or any(line.startswith("LockException") for line in part):
        yield "If nothing else runs here, type `python -m snakemake --unlock`, then the same command."
    if progress.planned:  # otherwise it was a mistake, which a line or two have stated
        yield from ("", f"all that Snakemake said: {log}")


def _failures(config: dict, scale: str, progress: watch.Progress) -> Iterator[str]:
    """The cells that failed, with the last words of each, and what to type."""
    failed = sorted(progress.failed_cells())
    notes = {(room, cell): note for room in config["studies"] for cell, _, note in status.states(config, room)}
    if progress.failed:
        yield f"jobs that failed: {len(progress.failed)}, of them cells: {len(failed)}"
    for room, cell in failed[:LISTED]:
        note = notes.get((room, cell), "")
        yield f"  {room} {cell}: {note.removeprefix(f'bench: {cell}: ')}"
    if failed[LISTED:]:
        yield f"  and {len(failed) - LISTED} more; all of them: python -m bench status --scale {scale}"
    if failed:
        yield f"to run one of these alone: python -m bench run {' '.join(failed[0])} --scale {scale}"
    if progress.failed:
        yield "once it is mended, the same command continues; what is done stays done"


def _say(*lines: str) -> None:
    if lines:
        print(*lines, sep="\n", flush=True)
