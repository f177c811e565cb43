"""Thesis fig. 3.10: accuracy of the network itself."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _full

NAME = "thesis-3.10"
TABLES = ("pntk-full",)
TITLE = "Accuracy of the network itself in training on the whole dataset"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _full.draw(tables, "accuracy", "test accuracy (%)")
