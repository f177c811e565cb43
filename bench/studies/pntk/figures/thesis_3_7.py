"""Thesis fig. 3.7: relative difference of kernel regression by eNTK and by pNTK, with a control."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _epochs

NAME = "thesis-3.7"
TABLES = ("pntk-summary",)
TITLE = "Predictions of both kernels come together where the network interpolates; what the kernels add does not"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _epochs.draw(
        tables,
        "gap",
        "relative difference\nof predictions",
        second="gap_of_additions",
        note="Dashed: relative to what the eNTK adds.",
    )
