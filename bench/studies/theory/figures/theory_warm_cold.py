"""The gap between warm and cold starts when a condition of Theorem 2.2.1 is given up, by degrees."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-warm-cold",)
TITLE = "Warm equals cold to rounding, until there is a ridge, an end of training or a set that is not nested"
PANELS = {
    "ridge": ("a ridge", "ridge / mean diagonal", "xy"),
    "finite-time": ("a finite time", "time of a stage, t lambda_max / n", "xy"),
    "not-nested": ("sets not nested", "share left out of the next set", "y"),
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-warm-cold"]
    if rows.empty:
        return style.empty("No finished cells of warm-cold at this scale.")
    shown = {setting: about for setting, about in PANELS.items() if setting in set(rows["setting"])}
    if not shown:
        return style.empty("No finished cells of warm-cold without one of its conditions at this scale.")
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.5), layout="constrained")
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    exact = rows[rows["setting"].isin(["nested", "relabelled"])]["gap"].max()
    looks = style.ladder(sorted(rows["stages"].unique()))
    for axes, (setting, (title, xlabel, log)) in zip(panels, shown.items(), strict=True):
        mine = rows[rows["setting"] == setting]
        for stages, look in looks.items():
            _lines.measured(axes, mine[mine["stages"] == stages], "strength", "gap", label=f"{stages} sets", **look)
        if exact > 0:
            axes.axhline(exact, **_lines.THEORY, label="no condition given up:\nlargest gap")
        _lines.finish(axes, xlabel, "|warm - cold| / |cold - f_0|" if axes is panels[0] else "", title, log)
    panels[-1].legend(handlelength=1.6, fontsize=style.SMALL, loc="center")
    _lines.footnote(figure, rows, "Where no condition is given up the theorem says 0.")
    return figure
