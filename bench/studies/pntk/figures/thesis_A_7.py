"""Thesis fig. A.7: the ablation of the FCN over nonlinearities and truncated initialisation."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _ablation

NAME = "thesis-A.7"
TABLES = ("pntk-summary",)
TITLE = "Difference of the largest eigenvalues, over nonlinearities and laws of the weights"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _ablation.draw(tables, "lambda_max", "relative difference\nof the largest eigenvalue")
