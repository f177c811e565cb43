"""A forest plot of claims, of any study: the interval of each, the range in which it holds, its verdict as a colour.

Units have axes of their own: points of accuracy, accuracies, ratios (logarithmic), and anything else.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bench.report import style, words
from bench.report.claims import DEMO, VERDICTS

COLOURS = dict(zip((*VERDICTS, DEMO), ("#7FC8A9", "#F0907A", "#F3E2A2", "#D5D5D5", "#FFFFFF", "#DCD6EC"), strict=True))
INKS = dict(zip(COLOURS, ("#1B7F5C", "#C23B22", "#A07E00", "#777777", "#777777", "#6A5AA0"), strict=True))
UNITS = {
    "points": "difference of accuracy (points)",
    "%": "accuracy (%)",
    "times": "ratio",
    "": "value, in the unit of the claim",
}
ROW = 0.2  # inches; for text of two lines half as much again
WORDS = 3.5  # inches of text beside the bars


def draw(claims: pd.DataFrame, empty: str) -> Figure:
    """One row per claim and setting that was measured, in the order of the table."""
    claims = claims[claims["n"] > 0].reset_index(drop=True)
    if claims.empty:
        return style.empty(empty)
    groups = {unit: rows for unit in UNITS if len(rows := claims[claims["unit"] == unit])}
    heights = [len(rows) + 2.2 for rows in groups.values()]
    row = ROW * (1.5 if any("\n" in _said(row, claims) for row in claims.itertuples()) else 1)
    figure = Figure(figsize=(style.TEXT_WIDTH, row * sum(heights) + 0.15))
    figure.set_layout_engine("constrained")
    grid = figure.subplots(len(groups), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for axes, (unit, rows) in zip(grid, groups.items(), strict=True):
        _group(axes, rows, unit)
    found = [word for word in COLOURS if word in set(claims["verdict"])]
    handles = [Patch(facecolor=INKS[word], label=word) for word in found]
    handles.append(Patch(facecolor="#E3F1EA", label="where the claim holds"))
    figure.set_figheight(figure.get_figheight() + 0.2)
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), handlelength=1.2)
    style.footnote(
        figure,
        f"Scale {claims['scale'].iloc[0]}; {style.seeds(claims['n'])}. Bars: 95% intervals over seeds.",
    )
    return figure


def _group(axes: Axes, rows: pd.DataFrame, unit: str) -> None:
    factor = 100 if unit in ("points", "%") else 1
    middle, low, high = (factor * rows[key].to_numpy(float) for key in ("measured", "low", "high"))
    low, high = np.where(np.isnan(low), middle, low), np.where(np.isnan(high), middle, high)
    least, most = (factor * rows[key].to_numpy(float) for key in ("holds_above", "holds_below"))
    bounds = [*low, *high, *least[~np.isnan(least)], *most[~np.isnan(most)], *([0] if unit == "points" else [])]
    left, right = _limits(np.array(bounds, dtype=float), unit)
    for place, row in enumerate(rows.itertuples()):
        holds = [left if np.isnan(least[place]) else least[place], right if np.isnan(most[place]) else most[place]]
        axes.fill_betweenx([place - 0.46, place + 0.46], *holds, color="#E3F1EA", linewidth=0, zorder=0)
        ink = INKS[row.verdict]
        axes.plot([low[place], high[place]], [place, place], color=ink, linewidth=2.2, solid_capstyle="butt")
        axes.plot(middle[place], place, "o", color=ink, markersize=4)
        about = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center", "size": 6.5}
        axes.text(-0.01, place, _said(row, rows), linespacing=1, **about)
        number = words.measured(row).removesuffix(row.unit).strip()
        axes.text(1.01, place, number, transform=axes.get_yaxis_transform(), va="center", size=6.5)
    if unit == "points":
        axes.axvline(0, color="0.3", linewidth=0.8, zorder=1)
    axes.set(xlim=(left, right), ylim=(len(rows) - 0.5, -0.5), xlabel=UNITS[unit])
    if unit == "times":
        style.log_axis(axes, "x")
    axes.set_yticks([])
    axes.grid(axis="y", visible=False)


def _said(row, rows: pd.DataFrame) -> str:
    """The statement, with its setting where it was put to the test in several."""
    many = (rows["claim"] == row.claim).sum() > 1
    text = f"{row.where}: {row.statement}" + (f" ({row.setting.removeprefix('thesis-')})" if many else "")
    return style.wrap(text, WORDS, 6.5)


def _limits(values: np.ndarray, unit: str) -> tuple[float, float]:
    if unit == "times":
        values = np.log(values[values > 0])
    low, high = values.min(), values.max()
    room = 0.06 * (high - low) or 0.5
    low, high = low - room, high + room
    return (float(np.exp(low)), float(np.exp(high))) if unit == "times" else (float(low), float(high))
