"""Thesis fig. A.6: the ablation of the FCN over nonlinearities and truncated initialisation."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _ablation

NAME = "thesis-A.6"
TABLES = ("pntk-summary",)
TITLE = "Frobenius error of the pNTK, over nonlinearities and laws of the weights"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _ablation.draw(tables, "frobenius", "relative Frobenius error")
