"""How the number of steps of scale cpu was chosen: random acquisition alone, on trials of their own."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.npc.figures import _parts

NAME = "npc-setting"
TABLES = ("npc-summary",)
TITLE = "The choice of the number of steps: random acquisition alone"
PREFIX = "setting-steps-"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["npc-summary"][tables["npc-summary"]["panel"].str.startswith(PREFIX)]
    if rows.empty:
        return style.empty("no setting was chosen at this scale")
    panels = sorted(rows["panel"].unique(), key=lambda name: int(name.removeprefix(PREFIX)))
    chosen = style.ladder(f"{int(panel.removeprefix(PREFIX)):,} steps" for panel in panels)
    figure = Figure(figsize=(style.SINGLE_WIDTH, 2.1), layout="constrained")
    axes = figure.subplots()
    for panel, look in zip(panels, chosen.values(), strict=True):
        mine = rows[rows["panel"] == panel].sort_values("labelled")
        middle, spread = 100 * mine["accuracy_mean"], 100 * mine["accuracy_sd"].fillna(0)
        ends = [spread.clip(upper=middle), spread.clip(upper=100 - middle)]  # no accuracy beyond 0 and 100
        axes.errorbar(mine["labelled"], middle, yerr=ends, elinewidth=0.8, **look)
    axes.set_xticks(sorted(rows["labelled"].unique()))
    axes.set(xlabel=style.LABELLED, ylabel=style.ACCURACY)
    style.legend(figure, chosen)
    _parts.footnote(figure, rows[rows["strategy"] != "initial"], "Bars: standard deviations.")
    return figure
