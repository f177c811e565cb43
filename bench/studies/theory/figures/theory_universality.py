"""The smallest eigenvalue of the arccos kernel's Gram matrix, of points with a constant coordinate and without."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-universality",)
TITLE = "The constant coordinate is needed: without it the kernel is singular on antipodes"
ZERO = 1e-17  # where an eigenvalue that is 0 to rounding is drawn
NAMES = {"random": "random points", "antipodal": "pairs of antipodes"}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-universality"]
    if rows.empty:
        return style.empty("No finished cells of universality at this scale.")
    rows = rows.assign(shown=rows["smallest"].where(rows["margin"] > 1, ZERO))
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    looks = style.ladder(sorted(rows["d"].unique()))
    for axes, points in zip(panels, NAMES, strict=True):
        for d, look in looks.items():
            for setting, line in (("constant", {"linestyle": "-"}), ("sphere", {"linestyle": ":"})):
                mine = rows[(rows["points"] == points) & (rows["d"] == d) & (rows["setting"] == setting)]
                open_ = {"markerfacecolor": "white"} if setting == "sphere" else {}
                _lines.measured(axes, mine, "n", "shown", **look | line | open_)
        _lines.finish(axes, "points n", "", NAMES[points])
    panels[0].set_ylabel("smallest eigenvalue")
    panels[0].set_ylim(ZERO / 10, 10)
    panels[0].set_yticks([ZERO, 1e-12, 1e-6, 1], ["0", "1e-12", "1e-06", "1"])
    names = {f"d = {d}": look for d, look in looks.items()}
    kinds = {"(x, 1) / sqrt 2": {"color": "0.3"}, "x": {"color": "0.3", "linestyle": ":"}}
    style.legend(figure, names | kinds)
    _lines.footnote(figure, rows, "An eigenvalue of at most n eps lambda_max counts as 0.")
    return figure
