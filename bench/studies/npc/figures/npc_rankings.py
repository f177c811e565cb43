"""The paper's argument that it never shows: the same label sets, in semi-supervised and in supervised training."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.npc.figures import _parts

NAME = "npc-rankings"
TABLES = ("npc-summary",)
TITLE = "The same labels in semi-supervised and in supervised training: what a strategy gains over passive learning"
PANELS = {
    "npc-table-1": "semi-supervised",
    "controls-supervised-weak": "supervised, weak views",
    "controls-supervised-strong": "supervised, strong views",
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    summed = tables["npc-summary"]
    summed = summed[summed["panel"].isin(PANELS) & (summed["strategy"] != "initial")]
    if summed["panel"].nunique() < 2 or set(summed["strategy"]) <= {"random"}:
        return style.empty("no finished cells of both trainings at this scale")
    chosen = {name: look for name, look in _parts.looks(summed["strategy"]).items() if name != "random"}
    counts = sorted(summed.loc[summed["panel"] == "npc-table-1", "labelled"].unique())
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.4), layout="constrained")
    shown = [name for name in PANELS if set(summed.loc[summed["panel"] == name, "strategy"]) & set(chosen)]
    for axes, panel in zip(figure.subplots(1, len(shown), sharey=True, squeeze=False)[0], shown, strict=True):
        rows = summed[summed["panel"] == panel]
        for number, (name, look) in enumerate(chosen.items()):
            shift = (number - (len(chosen) - 1) / 2) * 0.8 / len(chosen)
            for place, count in enumerate(counts):
                row = rows[(rows["strategy"] == name) & (rows["labelled"] == count)]
                if len(row):
                    _parts.dots(axes, place + shift, row, "difference", look, across=False)
        axes.axhline(0, color="0.3", linewidth=0.9, zorder=1)
        passive = rows[rows["strategy"] == "random"].set_index("labelled")["accuracy_mean"]
        ticks = [f"{count}\n({100 * passive[count]:.0f}%)" if count in passive else str(count) for count in counts]
        axes.set_xticks(range(len(counts)), ticks)
        axes.set_title(PANELS[panel], size=style.SMALL)
    figure.axes[len(shown) // 2].set_xlabel("labelled images (accuracy of passive learning)")
    figure.axes[0].set_ylabel("minus passive (points)")
    _parts.legend(figure, chosen)
    _parts.footnote(figure, summed, "Bars: 95% intervals over trials.")
    return figure
