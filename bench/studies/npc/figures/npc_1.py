"""NPC figure 1: how much the labels of two strategies overlap."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.npc.figures import _parts

NAME = "npc-1"
TABLES = ("npc-overlap", "npc-summary")
TITLE = "Figure 1: intersection over union of the labels that two strategies buy"
PANELS = ("npc-table-2", "npc-table-1")  # the paper's is of CIFAR-100; else the one with its strategies


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    found = tables["npc-overlap"]
    panel = max(PANELS, key=lambda name: len(set(_parts.NAMES) & set(found.loc[found["panel"] == name, "strategy_a"])))
    rows = found[found["panel"] == panel]
    if rows.empty:
        return style.empty(f"no finished cells of {' or '.join(PANELS)} at this scale")
    strategies = list(_parts.looks([*rows["strategy_a"], *rows["strategy_b"]]))
    counts = sorted(rows["labelled"].unique())
    names = [_parts.called(name) for name in strategies]
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.15), layout="constrained")
    for axes, count in zip(figure.subplots(1, len(counts), squeeze=False)[0], counts, strict=True):
        values = np.full((len(strategies), len(strategies)), np.nan)
        for row in rows[rows["labelled"] == count].itertuples():
            a, b = strategies.index(row.strategy_a), strategies.index(row.strategy_b)
            values[max(a, b), min(a, b)] = row.iou
        drawn = axes.imshow(values, cmap="YlGnBu", vmin=0, vmax=max(10, rows["iou"].max()))
        for a, b in zip(*np.nonzero(~np.isnan(values)), strict=True):
            dark = values[a, b] > 0.6 * drawn.get_clim()[1]
            axes.text(b, a, f"{values[a, b]:.0f}", ha="center", va="center", size=7, color="white" if dark else "0.2")
        axes.set_title(f"{count} labels", size=style.SMALL)
        axes.set_xticks(range(len(names)), names, rotation=60)
        axes.set_yticks(range(len(names)), names if axes is figure.axes[0] else [])
        axes.grid(visible=False)
    shown = tables["npc-summary"][(tables["npc-summary"]["panel"] == panel)]
    shown = shown[shown["strategy"] != "initial"]
    note = "Percent, over the unions of all trials, without initial labels; on the diagonal, mean over pairs of trials."
    _parts.footnote(figure, shown, note)
    return figure
