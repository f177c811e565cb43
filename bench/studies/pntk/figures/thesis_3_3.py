"""Thesis fig. 3.3: relative difference of the eNTK and the pNTK in Frobenius norm."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _epochs

NAME = "thesis-3.3"
TABLES = ("pntk-summary",)
TITLE = "Frobenius error of the pNTK: falls with width, grows in training"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _epochs.draw(tables, "frobenius", "relative Frobenius error")
