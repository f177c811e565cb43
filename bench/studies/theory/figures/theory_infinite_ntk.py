"""The tangent kernel of finite nets at initialisation against its closed form at infinite width."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-infinite-ntk",)
TITLE = "A net's tangent kernel at initialisation approaches the closed form like width^(-1/2)"
LOOKS = {
    "relu-1": {"color": "#D55E00", "marker": "o"},
    "relu-3": {"color": "#D55E00", "marker": "s", "linestyle": ":"},
    "erf-1": {"color": "#0072B2", "marker": "o"},
    "erf-3": {"color": "#0072B2", "marker": "s", "linestyle": ":"},
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-infinite-ntk"]
    if rows.empty:
        return style.empty("No finished cells of infinite-ntk at this scale.")
    figure = Figure(figsize=(style.SINGLE_WIDTH, 2.6), layout="constrained")
    axes = figure.subplots()
    for setting, look in LOOKS.items():
        activation, depth = setting.split("-")
        mine = rows[rows["setting"] == setting]
        _lines.measured(axes, mine, "width", "error", label=f"{activation}, depth {depth}", **look)
    widths = np.array(sorted(rows["width"].unique()))
    least = rows[rows["width"] == widths[-1]]["error"].min()
    _lines.theory(axes, widths, 0.7 * least * (widths / widths[-1]) ** -0.5, "~ width^(-1/2)")
    _lines.finish(axes, "hidden units of a layer", "|Theta - E Theta| / |E Theta|")
    axes.legend(handlelength=2.4, fontsize=style.SMALL)
    _lines.footnote(figure, rows, f"Root mean square of {rows['trials'].iloc[0]} nets; Frobenius norms.")
    return figure
