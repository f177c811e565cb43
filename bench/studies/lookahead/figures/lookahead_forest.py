"""Every claim of thesis chapter 2 that was measured: its interval, the range in which it holds, its verdict."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import forest

NAME = "lookahead-forest"
TABLES = ("lookahead-claims",)
TITLE = "Every claim of chapter 2 that was measured: interval, range in which it holds, verdict"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return forest.draw(tables["lookahead-claims"], "no claim of chapter 2 has finished cells")
