"""Thesis fig. 2.1a: look-ahead by retraining and by the NTK, with and without the block formula."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.lookahead.figures import _times

NAME = "thesis-2.1a"
TABLES = ("lookahead-summary", "lookahead-times-per-cycle")
TITLE = "Naive look-ahead against the NTK's: accuracy and query time"
PANELS = ("thesis-2.1a",)


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _times.draw(tables["lookahead-summary"], tables["lookahead-times-per-cycle"], *PANELS)
