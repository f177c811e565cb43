"""The distance of the first-layer kernel from that of the linear model, and its two steps, over dimensions."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-early-time-kernel",)
TITLE = "At initialisation the first-layer kernel nears that of a linear model, faster than stated"
NAMES = {
    "linear": "|Theta_lin| itself",
    "distance": "|Theta - Theta_lin|",
    "approximation": "|E Theta - Theta_lin|",
    "concentration": "|Theta - E Theta|",
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-early-time-kernel"]
    if rows.empty:
        return style.empty("No finished cells of early-time-kernel at this scale.")
    settings = sorted(rows["setting"].unique())
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.6), layout="constrained")
    panels = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    for setting, axes in zip(settings, panels, strict=True):
        mine = rows[rows["setting"] == setting]
        for quantity, look in style.ladder(NAMES).items():
            _lines.measured(axes, mine, "d", quantity, label=NAMES[quantity], **look)
        bounds = mine.groupby("d")["bound"].first()
        start = mine.groupby("d")["distance"].mean().iloc[0]
        _lines.theory(
            axes, bounds.index, 1.35 * start * bounds / bounds.iloc[0], f"d^({_lines.slope(bounds):.2g}), at any height"
        )
        _lines.finish(axes, "dimension d", "norm times d / n" if axes is panels[0] else "", f"{setting} inputs")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", handlelength=1.6)
    _lines.footnote(figure, rows, "erf; points and neurons grow like d^(1 + alpha).")
    return figure
