"""Thesis fig. 2.2: strategies against random on SVHN, CIFAR-10 and CIFAR-100."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.lookahead.figures import _curves

NAME = "thesis-2.2"
TABLES = ("lookahead-summary",)
TITLE = "Active learning strategies, as difference from random acquisition"
PANELS = ("thesis-2.2a", "thesis-2.2b", "thesis-2.2c")
NOTE = "The thesis leaves LL4AL out of (b) and (c)."


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _curves.draw(tables["lookahead-summary"], PANELS, difference=True, note=NOTE)
