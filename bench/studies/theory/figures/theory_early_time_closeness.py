"""The distance between a net and its linear model against eta t eps / sqrt n, with eps measured along the path."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-early-time-closeness",)
TITLE = "The general theorem holds with constant 1, and with room to spare"
NAMES = {"first": "first layer", "second": "second layer", "both": "both layers"}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-early-time-closeness"]
    if rows.empty:
        return style.empty("No finished cells of early-time-closeness at this scale.")
    rows = rows[(rows["rate"] == rows["rate"].min()) & (rows["step"] > 0)]
    settings = [setting for setting in NAMES if setting in set(rows["setting"])]
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.3), layout="constrained")
    panels = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    looks = style.ladder(sorted(rows["d"].unique()))
    for setting, axes in zip(settings, panels, strict=True):
        for d, look in looks.items():
            for _, one in rows[(rows["setting"] == setting) & (rows["d"] == d)].groupby("seed"):
                axes.plot(one["time"], one["ratio"], **look | {"marker": ""})
        axes.axhline(1, **_lines.THEORY)
        _lines.finish(axes, "eta t / d", "distance / bound" if axes is panels[0] else "", NAMES[setting], log="y")
    named = {f"d = {d}": look | {"marker": ""} for d, look in looks.items()}
    style.legend(figure, named | {"the bound, with constant 1": _lines.THEORY})
    seeds = rows.groupby("setting")["seed"].nunique()
    condition = f"R^2 eps / n, which the theorem wants below 1, reaches {rows['condition'].max():.2g}."
    style.footnote(figure, f"Scale {rows['scale'].iloc[0]}; {style.seeds(seeds)}, one line each.", condition)
    return figure
