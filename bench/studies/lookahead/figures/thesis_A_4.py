"""Thesis fig. A.4: the runs of figs 2.2 and A.1 as plain accuracy."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.lookahead.figures import _curves

NAME = "thesis-A.4"
TABLES = ("lookahead-summary",)
TITLE = "Active learning strategies, test accuracy"
PANELS = (
    "thesis-2.2a",
    "thesis-2.2b",
    "thesis-2.2c",
    "thesis-A.1a",
    "thesis-A.1b",
    "thesis-A.1c",
    "thesis-A.1d",
)


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _curves.draw(tables["lookahead-summary"], PANELS, difference=False)
