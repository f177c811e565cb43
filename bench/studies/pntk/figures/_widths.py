"""Errors at initialisation against width or outputs, on logarithmic axes, with the exponents fitted."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report import style


def curve(axes: Axes, rows: pd.DataFrame, along: str, look: dict) -> None:
    rows = rows.sort_values(along)
    axes.plot(rows[along], rows["mean"], **look)
    axes.fill_between(rows[along], rows["low"], rows["high"], color=look["color"], alpha=0.15, linewidth=0)


def bound(axes: Axes, first: pd.Series, widths: np.ndarray) -> None:
    """C log(n) / sqrt(n) through the narrowest network's error."""
    shape = np.log(widths) / np.sqrt(widths)
    axes.plot(widths, first * shape / shape[0], color="0.4", linestyle="--", linewidth=1)


def finish(axes: Axes, values: list[int], label: str, ylabel: str, title: str, below: float) -> None:
    """Axes; `below` is the part of the height under all lines, where the exponents have their place."""
    means = np.concatenate([line.get_ydata() for line in axes.lines])
    low, high = np.log(np.nanmin(means)), np.log(np.nanmax(means))
    span = max(high - low, 0.5) / (0.93 - below)
    axes.set_ylim(
        np.exp(high - (1 - 0.07) * span), np.exp(high + 0.07 * span)
    )  # of means: two seeds have wide intervals
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel=ylabel, title=title)
    axes.set_xticks(values, [f"{value:,}" for value in values], rotation=45 if len(values) > 5 else 0)
    axes.minorticks_off()


def exponent(table: pd.DataFrame, **wanted: object) -> str:
    """`-0.56 [-0.64, -0.49]`, or nothing."""
    rows = table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    if rows.empty:
        return ""
    row = rows.iloc[0]
    return f"{row['exponent']:.2f}" + (f" [{row['low']:.2f}, {row['high']:.2f}]" if pd.notna(row["low"]) else "")


def start(tables: dict[str, pd.DataFrame], panel: str, quantity: str) -> pd.DataFrame:
    table = tables["pntk-summary"]
    return table[(table["panel"] == panel) & (table["quantity"] == quantity) & (table["epoch"] == 0)]


def footnote(figure: Figure, rows: pd.DataFrame, *notes: str) -> None:
    points = "/".join(f"{n:,}" for n in sorted(rows["train_points"].unique()))
    style.footnote(
        figure,
        f"Scale {rows['scale'].iloc[0]}; FCN at initialisation, {points} points; {style.seeds(rows['n'])}.",
        "Shading: 95% t-interval.",
        *notes,
    )
