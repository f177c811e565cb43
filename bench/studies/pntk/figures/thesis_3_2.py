"""Thesis fig. 3.2: magnitudes of on- and off-diagonal elements of the eNTK."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _epochs

NAME = "thesis-3.2"
TABLES = ("pntk-summary",)
TITLE = "Off- over on-diagonal elements of the eNTK falls with width, at initialisation"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _epochs.draw(tables, "off_on", "off- over on-diagonal")
