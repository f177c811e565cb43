"""Thesis fig. 3.9: accuracy of regression with the pNTK of all of CIFAR-10."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.pntk.figures import _full

NAME = "thesis-3.9"
TABLES = ("pntk-full",)
TITLE = "Accuracy of regression with the pNTK of the whole dataset"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _full.draw(
        tables,
        "pseudo_accuracy",
        "test accuracy (%)",
        second="pseudo_accuracy_without_prior",
        note="Dashed: without the network as prior.",
    )
