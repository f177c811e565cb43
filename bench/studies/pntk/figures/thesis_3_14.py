"""Thesis fig. 3.14: the quantity of fig. 3.12 once more, as in the thesis."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _full

NAME = "thesis-3.14"
TABLES = ("pntk-full",)
TITLE = "The same quantity as fig. 3.12, as in the thesis"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _full.draw(
        tables,
        "minus_final",
        "pNTK regression minus\nthe final network (points)",
        zero=True,
        note="The thesis shows the quantity of fig. 3.12 again.",
    )
