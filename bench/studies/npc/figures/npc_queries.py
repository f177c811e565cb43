"""What each strategy buys: balance of classes, distance, errors of the network, overlap with margin."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import stats, style
from bench.studies.npc.figures import _parts

NAME = "npc-queries"
TABLES = ("npc-queries", "npc-summary")
TITLE = "What each strategy buys"
PANELS = ("npc-table-1", "variants")
SHOWN = {  # column -> factor, title
    "balance": (1, "balance of classes\n(equal: 1)"),
    "wrong": (100, "the network is\nwrong on it (%)"),
    "distance": (1, "distance to labelled\n(average: 1)"),
    "margin": (100, "margin would\nbuy it (%)"),
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    queries, summed = tables["npc-queries"], tables["npc-summary"]
    summed = summed[summed["panel"].isin(PANELS) & (summed["strategy"] != "initial")]
    mine = pd.concat([_parts.shown(queries, panel) for panel in PANELS]).drop_duplicates()
    if mine.empty:
        return style.empty("no finished cells have bought anything at this scale")
    chosen = _parts.looks(mine["strategy"])
    order = mine.groupby("strategy")["balance"].mean().sort_values().index
    figure = Figure(figsize=(style.TEXT_WIDTH, 0.75 + 0.2 * len(order)), layout="constrained")
    grid = figure.subplots(1, len(SHOWN), sharey=True)
    for axes, (column, (factor, title)) in zip(grid, SHOWN.items(), strict=True):
        for height, name in enumerate(order):
            runs = factor * mine[mine["strategy"] == name].groupby("seed")[column].mean()
            found, look = stats.describe(runs), chosen[name]
            most = {"distance": float("inf"), "balance": 1}.get(column, 100)  # of a share, an interval ends there
            ends = [max(found["low"], 0), min(found["high"], most)]
            axes.plot(ends, [height, height], color=look["color"], linewidth=1.4)
            axes.plot(found["mean"], height, **look | {"linestyle": ""})
        axes.set_title(title, size=style.SMALL)
    if "wrong_of_all" in mine:
        grid[1].axvline(100 * mine["wrong_of_all"].mean(), color="0.3", linewidth=0.8, linestyle="--", zorder=1)
    grid[0].set_yticks(range(len(order)), [_parts.called(name) for name in order])
    note = "Bars: 95% intervals over trials. Dashed: all candidates. Margin: of outputs, before any softmax."
    _parts.footnote(figure, summed, note)
    return figure
