"""The closed form of the arccos kernel's expectation and means over m random neurons; and how fast these converge."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-arccos",)
TITLE = "The arccos kernel's closed form is right, and a net of m neurons is m^(-1/2) away"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-arccos"]
    if rows.empty:
        return style.empty("No finished cells of arccos at this scale.")
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    few, many = rows["m"].min(), rows["m"].max()
    degrees = np.linspace(0, 180, 2)
    _lines.theory(left, degrees, 0.5 - degrees / 360, "1/2 - angle / (2 pi)")
    for m, look in style.ladder([few, many]).items():
        mine = rows[rows["m"] == m]
        left.plot(mine["angle"], mine["frequency"], **look | {"linestyle": ""}, label=f"m = {m:,}")
    spread = rows[rows["error"] > 0]  # at 180 degrees there is none
    for angle, look in style.ladder(sorted(spread["angle"].unique())).items():
        mine = spread[spread["angle"] == angle]
        _lines.measured(right, mine, "m", "error", label=f"{angle:g}°", **look)
    expected = spread[spread["angle"] == spread["angle"].min()].groupby("m")["spread"].first()
    _lines.theory(right, expected.index, expected, "sqrt(p (1 - p) / m), 0°")
    _lines.finish(left, "angle (degrees)", "mean of s'(w . x) s'(w . x')", "closed form and neurons", log="")
    left.set_xticks(range(0, 181, 30))
    _lines.finish(right, "neurons m", "root mean square error", "distance from the closed form")
    left.legend(handlelength=1.6, fontsize=style.SMALL)
    right.legend(handlelength=1.6, fontsize=style.SMALL, ncols=2)
    _lines.footnote(figure, rows, f"A mark on the left: the mean of {rows['trials'].iloc[0]} nets.")
    return figure
