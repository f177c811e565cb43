"""Control of fig. 3.7: predictions of the kernels alone, without the network as prior."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _epochs

NAME = "pntk-without-prior"
TABLES = ("pntk-summary",)
TITLE = "Without the network as prior, predictions of eNTK and pNTK stay apart: the control of fig. 3.7"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _epochs.draw(tables, "gap_without_prior", "relative difference,\nwithout the prior")
