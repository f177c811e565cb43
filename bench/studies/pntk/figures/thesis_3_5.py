"""Thesis fig. 3.5: relative difference of the smallest eigenvalues."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _epochs

NAME = "thesis-3.5"
TABLES = ("pntk-summary",)
TITLE = "Difference of the smallest eigenvalues of eNTK and pNTK"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _epochs.draw(tables, "lambda_min", "relative difference\nof the smallest eigenvalue")
