"""NPC Table 3: one query, by a network with ten labels (single-shot) or by one that was never trained (zero-shot)."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.npc.figures import _parts

NAME = "npc-table-3"
TABLES = ("npc-published", "npc-summary")
TITLE = "Table 3: zero-shot and single-shot queries, as printed and here"
PREFIX = "npc-table-3-"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    printed, summed = (
        frame[frame["panel"].str.startswith(PREFIX)] for frame in (tables["npc-published"], tables["npc-summary"])
    )
    summed = summed[summed["strategy"] != "initial"]
    if summed.empty:
        return style.empty("no finished cells of Table 3 at this scale")
    panels = list(dict.fromkeys([*printed["panel"], *summed["panel"]]))
    panels = sorted(panels, key=lambda name: (name.split("-")[3], int(name.split("-")[4])), reverse=True)
    chosen = _parts.looks([*printed["strategy"], *summed["strategy"]])
    figure = Figure(figsize=(style.TEXT_WIDTH, 0.7 + 0.42 * len(panels)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for place, panel in enumerate(panels):
        for number, (name, look) in enumerate(chosen.items()):
            at = place + (number - (len(chosen) - 1) / 2) * 0.22
            theirs = printed[(printed["panel"] == panel) & (printed["strategy"] == name)]
            ours = summed[(summed["panel"] == panel) & (summed["strategy"] == name)]
            if len(theirs):
                row = theirs.iloc[0]
                ends = [
                    row["published_mean"] - row["published_sd"],
                    min(100, row["published_mean"] + row["published_sd"]),
                ]
                left.plot(ends, [at, at], color=look["color"], linewidth=1.4)
                left.plot([row["published_mean"]], [at], **look | {"linestyle": ""})
            if len(ours):
                _parts.dots(right, at, ours, "accuracy", look)
    names = ["{}-shot, {} labels".format(*panel.removeprefix(PREFIX).split("-")) for panel in panels]
    left.set_yticks(range(len(panels)), names)
    left.set_title("as printed, with standard deviations", size=style.SMALL)
    right.set_title("here, with 95% intervals", size=style.SMALL)
    for axes in (left, right):
        axes.set_xlabel(style.ACCURACY)
    _parts.legend(figure, chosen)
    _parts.footnote(figure, summed)
    return figure
