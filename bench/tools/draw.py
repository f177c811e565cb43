"""From tables to pictures: the edge where files are read and written."""

from pathlib import Path

from bench.core import csv, study
from bench.core.errors import UserError
from bench.report import figure


def draw(name: str, folder: Path, stem: Path) -> list[Path]:
    """Draw a figure from the tables in `folder` to <stem>.png and <stem>.pdf."""
    needed = {table: folder / f"{table}.csv" for table in study.all_figures()[name].constants["TABLES"]}
    for path in needed.values():
        if not path.is_file():
            raise UserError(f"{path} is missing; `python -m bench collect --partial` makes it from finished cells")
    return figure.save(figure.draw(name, {table: csv.read(path) for table, path in needed.items()}), stem)
