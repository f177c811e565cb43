"""How often the best of m random batches is in the top r: measured, as meant and as printed."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-search",)
TITLE = "The best of m random batches: NPC prints the probability of the complement"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-search"]
    if rows.empty:
        return style.empty("No finished cells of search at this scale.")
    figure = Figure(figsize=(style.SINGLE_WIDTH, 2.8), layout="constrained")
    axes = figure.subplots()
    m = np.geomspace(rows["m"].min(), rows["m"].max(), 200)
    for r, look in style.ladder(sorted(rows["r"].unique())).items():
        mine = rows[rows["r"] == r]
        axes.plot(mine["m"], mine["frequency"], **look | {"linestyle": ""}, label=f"measured, r = {r:g}")
        axes.plot(m, 1 - (1 - r) ** m, color=look["color"])
        axes.plot(m, (1 - r) ** m, color=look["color"], linestyle=":")
    axes.plot([], [], color="0.4", label="1 - (1 - r)^m, as meant")
    axes.plot([], [], color="0.4", linestyle=":", label="(1 - r)^m, as printed")
    _lines.finish(axes, "batches m", "probability", log="x")
    axes.legend(handlelength=1.6, fontsize=style.SMALL, loc="center left", bbox_to_anchor=(1, 0.5))
    style.footnote(figure, f"Scale {rows['scale'].iloc[0]}; {rows['trials'].iloc[0]:,} searches a mark.")
    return figure
