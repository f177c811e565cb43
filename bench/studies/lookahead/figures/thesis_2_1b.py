"""Thesis fig. 2.1b: look-ahead by four models, with the random baselines of network and GP."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.lookahead.figures import _curves

NAME = "thesis-2.1b"
TABLES = ("lookahead-summary",)
TITLE = "Look-ahead by the NTK, the infinite NTK, one SGD step and a GP"
PANELS = ("thesis-2.1b",)


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _curves.draw(tables["lookahead-summary"], PANELS, difference=False)
