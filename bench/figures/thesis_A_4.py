"""Thesis fig. A.4: the runs of figs 2.2 and A.1 as plain accuracy."""

import pandas as pd
from matplotlib.figure import Figure

from bench.figures import _curves, thesis_2_2, thesis_A_1

NAME = "thesis-A.4"
TABLES = ("lookahead-summary",)
TITLE = "Active learning strategies, test accuracy"
PANELS = thesis_2_2.PANELS + thesis_A_1.PANELS


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _curves.draw(tables["lookahead-summary"], PANELS, difference=False)
