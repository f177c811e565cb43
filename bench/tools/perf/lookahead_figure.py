"""The speed of look-ahead as a figure: the time in which each contender scores all candidates."""

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.tools.perf.lookahead import CONTENDERS, NET, WIDTH

OURS, OTHERS = "#0072B2", "0.85"


def draw(table: pd.DataFrame) -> Figure:
    table = table[(table.group == "contenders") & table.seconds.notna()].set_index("contender")
    table = table.reindex([name for name in CONTENDERS if name in table.index])
    if table.empty:
        return style.empty("no contender was timed")
    with mpl.rc_context(style.STYLE):
        figure = Figure(figsize=(style.TEXT_WIDTH, 2.1), layout="constrained")
        axes = figure.subplots()
        for place, row in enumerate(table.itertuples()):
            sampled = row.sample < row.candidates
            axes.barh(place, row.seconds, color=OTHERS if sampled else OURS, edgecolor="0.3", hatch="///" * sampled)
            text = f" {row.seconds:,.2g} s" if row.seconds < 1000 else f" {row.seconds / 3600:.1f} h"
            text += f", from {row.sample:.0f} of {row.candidates:,} candidates" * sampled
            axes.annotate(text, (row.seconds, place), va="center", size=style.SMALL)
        first = table.iloc[0]
        axes.set_yticks(range(len(table)), table.index)
        axes.set_ylim(len(table) - 0.4, -0.6)
        axes.grid(False, axis="y")
        axes.set_xscale("log")
        axes.set_xlim(table.seconds.min() / 3, table.seconds.max() * 300)  # room for words
        axes.set_xticks([10.0**power for power in range(-1, 5) if 10.0**power > table.seconds.min() / 3])
        axes.minorticks_off()
        axes.set_xlabel("seconds to score all candidates")
        size = f"{first.labelled} labelled images, {first.candidates:,} candidates, {first.outputs} outputs."
        network = f"Retraining and kernel blocks are of a {NET} of width {WIDTH}."
        style.footnote(figure, size, network, "Hatched: extrapolated from some candidates.", f"On {first.processor}.")
        return figure
