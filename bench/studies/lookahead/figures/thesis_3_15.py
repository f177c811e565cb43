"""Thesis fig. 3.15: look-ahead active learning with the pseudo-NTK and with the full empirical NTK."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.lookahead.figures import _times

NAME = "thesis-3.15"
TABLES = ("lookahead-summary", "lookahead-times-per-cycle")
TITLE = "Look-ahead by the pNTK and by the full eNTK: accuracy and query time"
PANELS = ("thesis-3.15",)


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _times.draw(tables["lookahead-summary"], tables["lookahead-times-per-cycle"], *PANELS)
