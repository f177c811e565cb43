"""Thesis fig. 3.6: relative difference of the condition numbers."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _epochs

NAME = "thesis-3.6"
TABLES = ("pntk-summary",)
TITLE = "Difference of the condition numbers of eNTK and pNTK"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _epochs.draw(tables, "condition", "relative difference\nof the condition number")
