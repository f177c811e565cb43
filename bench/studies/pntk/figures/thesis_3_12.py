"""Thesis fig. 3.12: accuracy of pNTK regression minus that of the final network."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _full

NAME = "thesis-3.12"
TABLES = ("pntk-full",)
TITLE = "pNTK regression minus the final network"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _full.draw(tables, "minus_final", "pNTK regression minus\nthe final network (points)", zero=True)
