"""Thesis fig. 3.4: relative difference of the largest eigenvalues."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _epochs

NAME = "thesis-3.4"
TABLES = ("pntk-summary",)
TITLE = "Difference of the largest eigenvalues of eNTK and pNTK"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _epochs.draw(tables, "lambda_max", "relative difference\nof the largest eigenvalue")
