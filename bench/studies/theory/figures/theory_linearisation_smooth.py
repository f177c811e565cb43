"""|f - f_lin| of smooth two-layer nets against the lecture's bound, by the direction in which the weights move."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-linearisation-smooth",)
TITLE = "Smooth activations: the bound is attained by the worst W, and far from it along gradient descent"
LOOKS = {  # from the tightest to the loosest
    "adversarial": {"color": "#D55E00", "marker": "^"},
    "equal": {"color": "#E69F00", "marker": "s"},
    "descent": {"color": "#0072B2", "marker": "o"},
    "random": {"color": "#56B4E9", "marker": "v"},
}
NAMES = {
    "adversarial": "worst neurons move along x",
    "equal": "all neurons move along x",
    "descent": "path of gradient descent",
    "random": "random direction",
}
RADIUS = 1.0


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-linearisation-smooth"]
    rows = rows[rows["radius"] == RADIUS]
    if rows.empty:
        return style.empty("No finished cells of linearisation-smooth at this scale.")
    settings = sorted(rows["setting"].unique())
    figure = Figure(figsize=(style.TEXT_WIDTH, 1.9), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(settings), sharey=True))
    for axes, setting in zip(panels, settings, strict=True):
        mine = rows[rows["setting"] == setting]
        for direction, look in LOOKS.items():
            _lines.measured(axes, mine[mine["direction"] == direction], "m", "distance", **look)
        bounds = mine.groupby("m")["bound"].first()
        _lines.theory(axes, bounds.index, bounds, "")
        _lines.finish(axes, "neurons m", "|f - f_lin|" if axes is panels[0] else "", setting)
        axes.set_xticks([100, 10_000])  # more would touch in panels so narrow
    looks = {NAMES[direction]: look | {"linestyle": "-"} for direction, look in LOOKS.items()}
    style.legend(figure, {"the bound, ~ m^(-1/2)": _lines.THEORY} | looks)
    _lines.footnote(figure, rows, f"|W - W0|_F = {RADIUS:g}.")
    return figure
