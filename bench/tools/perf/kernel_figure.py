"""The kernel engine's speed as a figure: how many times as long each peer takes, a panel per processor."""

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report import style
from bench.tools.perf.ratios import KERNELS, PEERS, processors, ratios

SHOWN = dict(zip(PEERS, (("#0072B2", "s", -0.16), ("#D55E00", "^", 0.16)), strict=True))  # and how far off its line
LEAST, MOST = 0.45, 14  # of the axis; what lies beyond is an arrow with its number
NOTE = "A peer is shown by its faster implementation. Arrows: beyond the axis. No marker: not timed."


def draw(table: pd.DataFrame) -> Figure:
    found, names = ratios(table), processors(table)
    if found.empty:
        return style.empty("no case has both this engine and a peer")
    groups = [*found.groupby(["output", "points"]).groups]
    nets = sorted(found.net.unique())
    places = {(*group, net): place for place, (*group, net) in enumerate((*g, n) for g in groups for n in ("", *nets))}
    with mpl.rc_context(style.STYLE):
        figure = Figure(figsize=(style.TEXT_WIDTH, 0.7 + 0.16 * len(places)), layout="constrained")
        panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
        for axes, (processor, name) in zip(panels, names.items(), strict=True):
            _panel(axes, found[found.processor == processor], places)
            axes.set_title(name)
        labels = [style.NETS.get(n, n.upper()) or f"{KERNELS[output]}, N = {points}" for output, points, n in places]
        panels[0].set_yticks(range(len(places)), labels)
        for label, (*_, net) in zip(panels[0].get_yticklabels(), places, strict=True):
            label.set_fontweight("normal" if net else "bold")
        panels[0].set_ylim(len(places) - 0.4, -0.6)
        style.legend(figure, {peer: {"color": c, "marker": m, "linestyle": ""} for peer, (c, m, _) in SHOWN.items()})
        style.footnote(figure, NOTE, *(f"{name}: {_when(table, processor)}." for processor, name in names.items()))
        return figure


def _panel(axes: Axes, found: pd.DataFrame, places: dict[tuple, int]) -> None:
    """Right of the line, this engine is faster."""
    axes.axvspan(LEAST, 1, color="0.93", linewidth=0)
    axes.axvline(1, color="0.2", linewidth=0.8)
    for row in found.itertuples():
        colour, marker, aside = SHOWN[row.peer]
        place = places[row.output, row.points, row.net] + aside
        if row.time < MOST:
            axes.plot(row.time, place, marker, color=colour)
        else:
            axes.plot(MOST, place, ">", color=colour, clip_on=False)
            axes.annotate(f"{row.time:.0f}  ", (MOST, place), color=colour, ha="right", va="center", size=style.SMALL)
    axes.set_xscale("log")
    axes.set_xlim(LEAST, MOST)
    axes.set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
    axes.minorticks_off()
    axes.set_xlabel("time of the peer / time of this engine")
    axes.text(0.96, 0, "peer faster", ha="right", va="center", size=style.SMALL, color="0.3")
    axes.text(1.05, 0, "this engine faster", va="center", size=style.SMALL, color="0.3")


def _when(table: pd.DataFrame, processor: str) -> str:
    rows = table[table.processor == processor]
    return f"{rows.measured_at.max()[:10]}, engine {rows.engine.iloc[0]}"
