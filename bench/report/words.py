"""Words and tables for documents: numbers with their intervals, rows of Markdown."""

from collections.abc import Iterable

import pandas as pd

from bench.core import config, csv, paths


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    head = list(head)
    lines = [_row(head), _row(["---"] * len(head)), *(_row(row) for row in rows)]
    return "\n".join(lines)


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def points(mean: float, low: float, high: float) -> str:
    """`1.2 [0.3, 2.1]`, in hundredths, of fractions."""
    mean, low, high = (round(100 * value, 1) + 0.0 for value in (mean, low, high))  # + 0.0: no minus zero
    return f"{mean:.1f}" if pd.isna(low) or low == high else f"{mean:.1f} [{low:.1f}, {high:.1f}]"


def plain(mean: float, low: float, high: float) -> str:
    """`329 [281, 386]`, three digits."""
    return f"{mean:.3g}" if pd.isna(low) else f"{mean:.3g} [{low:.3g}, {high:.3g}]"


def measured(row) -> str:
    """What a claim's row measured, with its unit."""
    value = (row.measured, row.low, row.high)
    if pd.isna(row.measured):
        return ""
    return f"{points(*value)} {row.unit}" if row.unit in ("points", "%") else f"{plain(*value)} {row.unit}".strip()


def text(value: object) -> str:
    """A cell of a table as words; an empty one, which a reader of CSV takes for a missing number, is empty."""
    return "" if pd.isna(value) else str(value)


def phrase(data: dict) -> str:
    """`digits, 1,300 train / 497 test, partial, 2x2 average-pooled`"""
    pool = data["average_pool"]
    marks = (", partial" if data["partial"] else "") + (f", {pool}x{pool} average-pooled" if pool > 1 else "")
    return f"{data['name']}, {data['train']:,} train / {data['test']:,} test{marks}"


def listed(names: Iterable[str]) -> str:
    """`a`, `b`, `c`, or none."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def committed(table: str) -> pd.DataFrame:
    """A committed table, of scale cpu; FileNotFoundError where there is none yet."""
    path = config.ROOT / paths.tables_folder("cpu") / f"{table}.csv"
    if not path.is_file():
        raise FileNotFoundError(2, "missing", str(path))
    return csv.read(path)
