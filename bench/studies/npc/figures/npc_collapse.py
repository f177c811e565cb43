"""Beyond the rank of the last layer's kernel the criterion cannot tell any batch from another."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.npc.figures import _parts

NAME = "npc-collapse"
TABLES = ("npc-queries", "npc-summary")
TITLE = "How many of a query's batches rounding cannot tell from the best"
PANELS = ("npc-table-1", "npc-table-2")


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    summed, queries = tables["npc-summary"], tables["npc-queries"]
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.1), layout="constrained")
    parts = []
    for panel in PANELS:
        mine = _parts.shown(queries, panel)
        mine = mine[mine["tied"].notna()]
        if len(mine):
            parts.append((panel, mine))
    if not parts:
        return style.empty("no finished cells of NPC at this scale")
    chosen = _parts.looks(name for _, mine in parts for name in mine["strategy"])
    for axes, (_, mine) in zip(figure.subplots(1, len(parts), sharey=True, squeeze=False)[0], parts, strict=True):
        for number, (name, look) in enumerate(chosen.items()):
            rows = mine[mine["strategy"] == name]
            shift = 0.25 * (number - (len(chosen) - 1) / 2)
            axes.plot(rows["labelled"] + 4 * shift, rows["tied"], **look | {"linestyle": "", "alpha": 0.7})
        rank = mine["rank"].max()
        axes.axvline(rank + 0.5, color="0.35", linestyle="--", linewidth=1)
        axes.text(rank + 0.5, 30, f" rank {rank:.0f}", size=style.SMALL, color="0.35")
        axes.set_title(f"width {mine['width'].iloc[0]}", size=style.SMALL)
        axes.set(xlabel="labelled images with the batch", ylim=(0.7, 2000))
        axes.set_xticks(sorted(mine["labelled"].unique()))
        style.log_axis(axes)
    figure.axes[0].set_ylabel("batches tied with the best,\nof 1,000")
    _parts.legend(figure, chosen)
    shown = summed[summed["panel"].isin([panel for panel, _ in parts]) & summed["strategy"].isin(chosen)]
    note = "A mark is a query. Right of the dashed line the smallest eigenvalue is zero by construction."
    _parts.footnote(figure, shown, note)
    return figure
