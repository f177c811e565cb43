"""How far two-layer nets get from their linear models before T, over dimensions."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-early-time-dimension",)
TITLE = "The larger the dimension, the closer a two-layer net stays to its linear model"
NAMES = {"first": "first layer", "second": "second layer", "both": "both layers"}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-early-time-dimension"]
    if rows.empty:
        return style.empty("No finished cells of early-time-dimension at this scale.")
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    looks = style.ladder(NAMES.values())
    for split, axes in zip(("train", "test"), panels, strict=True):
        for setting, name in NAMES.items():
            if len(mine := rows[rows["setting"] == setting]):
                _lines.measured(axes, mine, "d", split, **looks[name])
        bounds = rows.groupby("d")["bound"].first()
        _lines.theory(axes, bounds.index, 1.4 * rows[["train", "test"]].max().max() * bounds / bounds.iloc[0], "")
        points = "training points" if split == "train" else "new points, cut off at 1"
        _lines.finish(axes, "dimension d", "sup mean (f - f_lin)^2, t <= T" if split == "train" else "", points)
    style.legend(figure, looks | {f"d^({_lines.slope(bounds):.2g}), at any height": _lines.THEORY})
    _lines.footnote(figure, rows, "Points and neurons grow like d^(1 + alpha); T = d log d / eta.")
    return figure
