"""Thesis fig. 3.8: accuracy of kernel regression by the pNTK minus that by the eNTK."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _epochs

NAME = "thesis-3.8"
TABLES = ("pntk-summary",)
TITLE = "Accuracy of regression with the pNTK minus that with the eNTK"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _epochs.draw(
        tables, "accuracy_difference", "pNTK minus eNTK\n(points of accuracy)", percent=True, log=False, zero=True
    )
