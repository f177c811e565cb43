"""Thesis fig. A.5: the ablation of the FCN over nonlinearities and truncated initialisation."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _ablation

NAME = "thesis-A.5"
TABLES = ("pntk-summary",)
TITLE = "Off- over on-diagonal elements of the eNTK, over nonlinearities and laws of the weights"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _ablation.draw(tables, "off_on", "off- over on-diagonal")
