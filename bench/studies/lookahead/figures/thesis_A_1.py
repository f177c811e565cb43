"""Thesis fig. A.1: strategies against random in the further settings of its appendix A.2."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.lookahead.figures import _curves

NAME = "thesis-A.1"
TABLES = ("lookahead-summary",)
TITLE = "Active learning strategies in further settings, as difference from random acquisition"
PANELS = ("thesis-A.1a", "thesis-A.1b", "thesis-A.1c", "thesis-A.1d")


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _curves.draw(tables["lookahead-summary"], PANELS, difference=True)
