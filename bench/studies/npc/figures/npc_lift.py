"""What helps: the lift of semi-supervised training beside the lift of choosing labels."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.npc.figures import _parts

NAME = "npc-lift"
TABLES = ("npc-summary",)
TITLE = "What helps: semi-supervised training, DARP, and choosing labels"
STEPS = (  # panel, strategy, words, look
    ("controls-supervised-weak", "random", "labels alone, weak views", {"color": "#BBBBBB", "marker": "v"}),
    ("controls-supervised-strong", "random", "labels alone, strong views", {"color": "#888888", "marker": "s"}),
    ("controls-fixmatch", "random", "FixMatch", {"color": "#56B4E9", "marker": "D"}),
    ("npc-table-1", "random", "FixMatch with DARP", {"color": "#0072B2", "marker": "o"}),
    ("npc-table-1", "npc", "FixMatch with DARP, labels by NPC", {"color": "#D55E00", "marker": "*", "markersize": 7}),
)


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    summed = tables["npc-summary"]
    figure = Figure(figsize=(style.SINGLE_WIDTH, 2.4), layout="constrained")
    axes, drawn, used = figure.subplots(), {}, []
    for panel, strategy, words, look in STEPS:
        rows = summed[(summed["panel"] == panel) & summed["strategy"].isin([strategy, "initial"])]
        rows = rows.sort_values("labelled")
        if rows.empty:
            continue
        axes.plot(rows["labelled"], 100 * rows["accuracy_mean"], **look)
        axes.fill_between(
            rows["labelled"],
            100 * rows["accuracy_low"],
            (100 * rows["accuracy_high"]).clip(upper=100),
            alpha=0.15,
            color=look["color"],
            linewidth=0,
        )
        drawn[words] = look
        used.append(rows[rows["strategy"] != "initial"])
    if not drawn:
        return style.empty("no finished cells at this scale")
    axes.set(xlabel=style.LABELLED, ylabel=style.ACCURACY)
    axes.set_xticks(sorted(pd.concat(used)["labelled"].unique()))
    style.legend(figure, drawn)
    _parts.footnote(figure, pd.concat(used), "Labels bought at random unless said. Shading: 95% intervals.")
    return figure
