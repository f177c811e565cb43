"""Lines of a theory figure: what was measured over seeds, with its spread, and what the theory says, dashed."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report import style

THEORY = {"color": "0.35", "linestyle": "--", "linewidth": 1, "marker": ""}


def measured(axes: Axes, rows: pd.DataFrame, along: str, quantity: str, **look) -> None:
    """The mean of `quantity` over trials and seeds, and the range from its least to its largest."""
    found = rows.groupby(along)[quantity].agg(["mean", "min", "max"])
    axes.plot(found.index, found["mean"], **look)
    axes.fill_between(found.index, found["min"], found["max"], color=look["color"], alpha=0.15, linewidth=0)


def theory(axes: Axes, along: np.ndarray, values: np.ndarray, label: str) -> None:
    axes.plot(along, values, label=label, **THEORY)


def slope(values: pd.Series) -> float:
    """The exponent p of values proportional to (their index)^p, from the first and the last; 0 for one value."""
    ends = np.log([(values.index[0], values.iloc[0]), (values.index[-1], values.iloc[-1])])  # (2, 2)
    (x, y) = ends[1] - ends[0]
    return float(y / x) if x else 0.0


def finish(axes: Axes, xlabel: str, ylabel: str, title: str = "", log: str = "xy") -> None:
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    for axis in log:
        style.log_axis(axes, axis)


def footnote(figure: Figure, rows: pd.DataFrame, *notes: str) -> None:
    seeds = rows.groupby("setting")["seed"].nunique()
    style.footnote(figure, f"Scale {rows['scale'].iloc[0]}; {style.seeds(seeds)}. Bands: least to largest.", *notes)
