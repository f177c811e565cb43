"""A ReLU net that learns |x|, and its linear model with and without the coordinate that depends on |x|."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-early-time-norm",)
TITLE = "Without its coordinate of |x| the linear model loses the net"
NAMES = {"full": "linear model, psi", "constant": "theta_0 in place of the norm", "without": "no third coordinate"}
LINES = {"full": "--", "constant": "-.", "without": ":"}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-early-time-norm"]
    if rows.empty:
        return style.empty("No finished cells of early-time-norm at this scale.")
    rows = rows[(rows["d"] == rows["d"].max()) & (rows["time"] > 0)]
    settings = [setting for setting in ("second", "both") if setting in set(rows["setting"])]
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.5), layout="constrained")
    panels = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    ladder = style.ladder(NAMES)
    looks = {model: {"color": ladder[model]["color"], "linestyle": LINES[model]} for model in NAMES}
    for setting, axes in zip(settings, panels, strict=True):
        for _, one in rows[rows["setting"] == setting].groupby("seed"):
            for model, look in looks.items():
                mine = one[one["model"] == model]
                axes.plot(mine["time"], mine["linear"], **look)
            axes.plot(mine["time"], mine["net"], color="#D55E00")
        title = "both layers train" if setting == "both" else "second layer trains"
        _lines.finish(axes, "eta t / d", "loss" if axes is panels[0] else "", title)
    named = {"net": {"color": "#D55E00"}} | {NAMES[model]: look for model, look in looks.items()}
    style.legend(figure, named)
    seeds = rows.groupby("setting")["seed"].nunique()
    facts = f"d = {rows['d'].iloc[0]}, {rows['m'].iloc[0]:,} neurons, y = |x| / sqrt d; time ends at T = d log d / eta."
    style.footnote(figure, f"Scale {rows['scale'].iloc[0]}; {style.seeds(seeds)}, one line each.", facts)
    return figure
