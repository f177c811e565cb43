"""The exact supremum of |f - f_lin| of a ReLU net against the lecture's bound, and the constant that would do."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-linearisation-relu",)
TITLE = "ReLU: the lecture's rate m^(-1/6) is right, its constant four times too large"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-linearisation-relu"]
    if rows.empty:
        return style.empty("No finished cells of linearisation-relu at this scale.")
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    radii = sorted(rows["radius"].unique())
    for radius, look in style.ladder(radii).items():
        mine = rows[rows["radius"] == radius]
        _lines.measured(left, mine, "m", "sup", label=f"B = {radius:g}", **look)
        _lines.measured(right, mine, "m", "constant", label=f"B = {radius:g}", **look)
        bounds = mine.groupby("m")["bound"].first()
        _lines.theory(left, bounds.index, bounds, "bound" if radius == radii[0] else "")
    right.axhline(2, **_lines.THEORY, label="the lecture's constant")
    right.set_ylim(0, 2.2)
    _lines.finish(left, "neurons m", "sup |f - f_lin|", "distance from the linearisation; dashed: the bound")
    _lines.finish(right, "neurons m", "sup m^(1/6) / B^(4/3)", "constant needed", log="x")
    right.legend(handlelength=1.6, fontsize=style.SMALL)
    _lines.footnote(figure, rows)
    return figure
