"""Thesis fig. A.8: the ablation of the FCN over nonlinearities and truncated initialisation."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _ablation

NAME = "thesis-A.8"
TABLES = ("pntk-summary",)
TITLE = "Difference of predictions, over nonlinearities and laws of the weights"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _ablation.draw(tables, "gap", "relative difference\nof predictions")
