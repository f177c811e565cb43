"""Every panel of a scale, whatever its name: test accuracy. Where panels of your own are drawn."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.lookahead.figures import _curves

NAME = "lookahead-panels"
TABLES = ("lookahead-summary",)
TITLE = "All panels of the scale, test accuracy"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    summary = tables["lookahead-summary"]
    return _curves.draw(summary, tuple(summary["panel"].unique()), difference=False)
