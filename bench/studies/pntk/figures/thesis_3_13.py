"""Thesis fig. 3.13: the quantity of fig. 3.7 once more, as in the thesis."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _epochs

NAME = "thesis-3.13"
TABLES = ("pntk-summary",)
TITLE = "The same quantity as fig. 3.7, as in the thesis"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _epochs.draw(
        tables, "gap", "relative difference\nof predictions", note="The thesis shows the quantity of fig. 3.7 again."
    )
