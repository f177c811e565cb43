"""Figures: one module per figure of the papers, drawn from tables alone.

A figure module states NAME, TABLES (the tables it needs, without .csv) and TITLE, and offers `draw(tables) -> Figure`.
"""

import importlib
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from bench.core import registry, study
from bench.core.errors import UserError
from bench.core.files import replacing
from bench.report.style import STYLE

# Files say nothing of the time or the version they were drawn with: the same tables give the same bytes.
METADATA = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None, "ModDate": None},
}


def draw(name: str, tables: dict[str, pd.DataFrame]) -> Figure:
    """The figure of that name, from its tables by name."""
    known = study.all_figures()
    if name not in known:
        raise UserError(registry.unknown("figure", name, known))
    module = importlib.import_module(known[name].module)
    if missing := [table for table in module.TABLES if table not in tables]:
        raise UserError(f"figure {name} needs the tables {', '.join(missing)}; found: {', '.join(tables) or 'none'}")
    with mpl.rc_context(STYLE):
        figure = module.draw(tables)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once, so that every format has the same places
        for axes in figure.axes:  # the layout's solver adds up in an order that changes from run to run
            axes.set_position([round(value, 6) for value in axes.get_position().bounds])
    return figure


def save(figure: Figure, stem: Path | str) -> list[Path]:
    """Write <stem>.png and <stem>.pdf, each all or nothing."""
    written = []
    for kind, metadata in METADATA.items():
        path = Path(f"{stem}.{kind}")  # not with_suffix: a stem such as thesis-2.2 has a dot of its own
        with replacing(path) as part, mpl.rc_context(STYLE):  # tick labels are made while saving
            figure.savefig(part, format=kind, dpi=200, metadata=metadata)
        written.append(path)
    return written
