"""How noisy trials are, and how many of them would tell NPC from each other strategy."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.npc.figures import _parts

NAME = "npc-noise"
TABLES = ("npc-differences",)
TITLE = "NPC minus each other strategy, and how many trials would decide"
PANEL = "npc-table-1"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["npc-differences"]
    rows = rows[(rows["panel"] == PANEL) & (rows["strategy_b"] == "npc")]
    if rows.empty:
        return style.empty(f"no finished cells of {PANEL} at this scale")
    chosen, counts = _parts.looks(rows["strategy_a"]), sorted(rows["labelled"].unique())
    figure = Figure(figsize=(style.TEXT_WIDTH, 0.9 + 0.3 * len(chosen)), layout="constrained")
    for axes, count in zip(figure.subplots(1, len(counts), sharey=True, squeeze=False)[0], counts, strict=True):
        mine = rows[rows["labelled"] == count].set_index("strategy_a")
        for height, (name, look) in enumerate(chosen.items()):
            if name not in mine.index:
                continue
            row = mine.loc[name]
            axes.plot([-100 * row["low"], -100 * row["high"]], [height, height], color=look["color"], linewidth=1.4)
            axes.plot([-100 * row["mean"]], [height], **look | {"linestyle": ""})
            text = f"sd {100 * row['sd']:.1f}; {row['trials_needed']}"
            axes.text(1.0, height - 0.15, text, transform=axes.get_yaxis_transform(), ha="right", va="bottom", size=6)
        axes.axvline(0, color="0.3", linewidth=0.8, zorder=1)
        axes.set_title(f"{count} labels", size=style.SMALL)
        axes.set_xlabel("NPC minus the other (points)")
    figure.axes[0].set_yticks(range(len(chosen)), [_parts.called(name) for name in chosen])
    figure.axes[0].set_ylim(len(chosen) - 0.4, -0.8)
    note = "Bars: 95% intervals. Numbers: standard deviation of a difference; trials that would decide its sign."
    _parts.footnote(figure, rows.assign(strategy=rows["strategy_a"]), note)
    return figure
