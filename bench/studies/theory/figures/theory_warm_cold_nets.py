"""The gap between warm and cold starts of trained two-layer nets, against their width."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-warm-cold-nets",)
TITLE = "Warm and cold starts of trained nets draw closer as nets widen, at least as fast as m^(-1/2)"
LOOKS = {
    "erf": {"color": "#0072B2", "marker": "s", "linestyle": "-"},
    "relu": {"color": "#D55E00", "marker": "o", "linestyle": "-"},
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-warm-cold-nets"]
    if rows.empty:
        return style.empty("No finished cells of warm-cold-nets at this scale.")
    figure = Figure(figsize=(style.SINGLE_WIDTH, 2.6), layout="constrained")
    axes = figure.subplots()
    for setting, mine in rows.groupby("setting"):
        _lines.measured(axes, mine, "m", "gap", label=setting, **LOOKS[setting])
    m = rows["m"].drop_duplicates().sort_values()
    first = rows[rows["m"] == m.iloc[0]]["gap"].mean()
    _lines.theory(axes, m, first * (m / m.iloc[0]) ** -0.5, "m^(-1/2)")
    _lines.finish(axes, "hidden units m", "|warm - cold| / |cold - f_0|")
    axes.legend(handlelength=1.6, fontsize=style.SMALL)
    _lines.footnote(figure, rows, f"Trained to a residual of at most {rows['residual'].max():.1g} of the labels.")
    return figure
