"""Thesis fig. 3.11: accuracy of pNTK regression minus that of the current network."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _full

NAME = "thesis-3.11"
TABLES = ("pntk-full",)
TITLE = "pNTK regression minus the network it is taken from"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _full.draw(tables, "minus_current", "pNTK regression minus\nthe current network (points)", zero=True)
