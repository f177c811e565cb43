"""Thesis fig. 2.1b: look-ahead by four models, each against random acquisition by the same model."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style as _style
from bench.studies.lookahead.figures import _curves

NAME = "thesis-2.1b"
TABLES = ("lookahead-summary",)
TITLE = "Look-ahead by the NTK, the infinite NTK, one SGD step and a GP, as difference from random acquisition"
PANELS = ("thesis-2.1b",)


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    """The thesis has the GP in the same axes; it is so far below the networks that nothing else could be seen."""
    summary = tables["lookahead-summary"]
    shown = dict(list(_curves.of_panels(summary, PANELS).groupby("strategy")))
    networks = {name: rows for name, rows in shown.items() if not name.startswith("gp")}
    process = {"gp": shown["gp"]} if "gp" in shown else {}
    title = _style.setting_title(next(iter(shown.values())).iloc[0]) if shown else ""
    parts = [
        _curves.Part(f"networks: {title}", networks, difference=True),
        _curves.Part("Gaussian process", process, difference=True, named="difference from the GP\nwith random labels"),
    ]
    return _curves.compose(summary, PANELS, parts, _style.styles([*networks, *process]))
