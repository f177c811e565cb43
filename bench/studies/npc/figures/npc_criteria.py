"""Random batches: what NPC's criterion, and two others, go along with."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import stats, style
from bench.studies.npc.figures import _parts

NAME = "npc-criteria"
TABLES = ("npc-criteria", "npc-summary")
TITLE = "Does the criterion say what it should? Rank correlations over random batches"
PANEL = "npc-table-1"
OUTCOMES = {
    "uncertain": "the network is\nunsure of the batch",
    "wrong": "the network is\nwrong on the batch",
    "coverage": "the batch covers\nthe pool worse",
    "balance": "the classes of the\nbatch are balanced",
}
CRITERIA = {"lambda_min": "smallest eigenvalue (NPC)", "logdet": "log-determinant, unit rows"}
COLOURS = ("#D55E00", "#0072B2")


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    summed = tables["npc-summary"]
    summed = summed[(summed["panel"] == PANEL) & (summed["strategy"] == "random")]
    found = _parts.shown(tables["npc-criteria"], PANEL)
    if found.empty:
        return style.empty("no finished cells of random at this scale")
    counts = sorted(found["labelled"].unique())
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.2), layout="constrained")
    for axes, (outcome, title) in zip(figure.subplots(1, 4, sharey=True), OUTCOMES.items(), strict=True):
        for shift, (criterion, colour) in zip((-0.12, 0.12), zip(CRITERIA, COLOURS, strict=True), strict=True):
            rows = found[(found["criterion"] == criterion) & (found["outcome"] == outcome)]
            for height, count in enumerate(counts):
                said = stats.describe(rows.loc[rows["labelled"] == count, "correlation"])
                axes.plot([said["low"], said["high"]], [height + shift] * 2, color=colour, linewidth=1.4)
                axes.plot(said["mean"], height + shift, "o", color=colour)
        axes.axvline(0, color="0.3", linewidth=0.8, zorder=1)
        axes.set(xlim=(-1, 1), title=title)
        axes.set_xticks([-1, -0.5, 0, 0.5, 1], ["-1", "", "0", "", "1"])
        axes.title.set_size(style.SMALL)
    figure.axes[0].set_yticks(range(len(counts)), [f"{count} labels" for count in counts])
    figure.axes[0].set_ylim(len(counts) - 0.5, -0.5)
    lines = {name: {"color": colour, "marker": "o"} for name, colour in zip(CRITERIA.values(), COLOURS, strict=True)}
    style.legend(figure, lines)
    batches = found["batches"].iloc[0]
    _parts.footnote(
        figure, summed, f"Spearman's, over {batches} random batches a query. Bars: 95% intervals over trials."
    )
    return figure
