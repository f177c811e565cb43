"""What random inputs do, divided by what is claimed of them, over dimensions."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-early-time-concentration",)
TITLE = "Norms, inner products and |X X^T| of random inputs are of the sizes claimed"
PANELS = {
    "norms": "max | |x|^2/d - 1 | / sqrt(log n / d)",
    "products": "max |<x, x'>|/d / sqrt(log n / d)",
    "top": "|X X^T| / n",
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-early-time-concentration"]
    if rows.empty:
        return style.empty("No finished cells of early-time-concentration at this scale.")
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.3), layout="constrained")
    panels = figure.subplots(1, len(PANELS))
    looks = style.ladder(sorted(rows["setting"].unique()))
    for (quantity, title), axes in zip(PANELS.items(), panels, strict=True):
        for setting, look in looks.items():
            _lines.measured(axes, rows[rows["setting"] == setting], "d", quantity, **look)
        _lines.finish(axes, "dimension d", "quotient" if quantity == "norms" else "", title, log="x")
        axes.set_ylim(-0.1, 1.1 * rows[list(PANELS)].max().max())
    style.legend(figure, looks)
    _lines.footnote(figure, rows, "The claims: no line rises; the last neither rises nor falls.")
    return figure
