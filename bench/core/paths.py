"""The only map between cells and files; the Snakefile's head shows it as a picture."""

from pathlib import Path

from bench.core.cell import Cell


def record_path(scale: str, study: str, cell: Cell | str) -> Path:
    return Path(f"results/{scale}/runs/{study}/{cell}.json")


def meta_path(record: Path) -> Path:
    """The account beside a record: times, machine, versions."""
    return record.with_suffix(".meta.json")


def resume_path(record: Path) -> Path:
    """The resume file of a record: results/<scale>/runs/... -> results/<scale>/resume/..."""
    return _beside(record, "resume", ".pt")


def other_record(resume: Path, cell: Cell, other: Cell) -> Path | None:
    """The record of another cell of the same study and scale, seen from a cell's resume file; None for a folder of the
    user's own.
    """
    parts = resume.parts
    if parts[0] != "results" or not str(resume).endswith(f"/{cell}.pt"):
        return None
    return record_path(parts[1], parts[3], other)


def log_path(record: Path) -> Path:
    return _beside(record, "logs", ".log")


def lock_path(record: Path) -> Path:
    return _beside(record, "resume", ".lock")


def tables_folder(scale: str) -> Path:
    return Path(f"results/{scale}/tables")


def archive_folder(scale: str) -> Path:
    return Path(f"results/{scale}/records")


def figure_stem(scale: str, figure: str) -> Path:
    """A figure's path without .png or .pdf."""
    return Path(f"figures/{scale}/{figure}")


def _beside(record: Path, folder: str, suffix: str) -> Path:
    parts = record.parts
    for place, part in enumerate(parts[2:], start=2):
        if part == "runs" and parts[place - 2] == "results":
            return Path(*parts[:place], folder, *parts[place + 1 :]).with_suffix(suffix)
    # A record in a folder of the user's own keeps its files beside it, under names that are nobody else's.
    return record.with_name(f"{record.name}.{folder}{suffix}")
