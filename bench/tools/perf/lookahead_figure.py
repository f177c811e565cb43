"""The speed of look-ahead as a figure: contenders side by side, and how the posterior form grows."""

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report import style as _style
from bench.tools.perf import quiet
from bench.tools.perf.lookahead import GROWTH, NET, READINGS, WIDTH

OURS, OTHERS = "#0072B2", "0.85"
LINES = dict(zip(READINGS, ("#0072B2", "#D55E00"), strict=True))


def draw(table: pd.DataFrame) -> Figure:
    """Growth is drawn from undisturbed measurements alone."""
    table = table.dropna(subset=["seconds"])
    with mpl.rc_context(_style.STYLE):
        figure = Figure(figsize=(_style.TEXT_WIDTH, 4.2), layout="constrained")
        grid = figure.add_gridspec(2, 3, height_ratios=(1.3, 1))
        _contenders(figure.add_subplot(grid[0, :]), table[table.group == "contenders"])
        undisturbed, left = table[table.contender.isin(READINGS) & ~(table.foreign > quiet.FOREIGN)], None
        for place, (what, letter) in enumerate(GROWTH.items()):
            left = axes = figure.add_subplot(grid[1, place], sharey=left)
            _growth(
                axes, undisturbed[undisturbed.group.isin(("contenders", f"growth in {what}"))].sort_values(what), what
            )
            axes.set_xlabel(f"{what} {letter}")
            axes.set_ylabel("" if place else "seconds")
            if not place and len(axes.lines):
                axes.legend(handlelength=1.5)
        return figure


def _contenders(axes: Axes, table: pd.DataFrame) -> None:
    for place, row in enumerate(table.itertuples()):
        sampled = row.sample < row.candidates
        axes.barh(place, row.seconds, color=OTHERS if sampled else OURS, edgecolor="0.3", hatch="///" * sampled)
        text = f" {row.seconds:,.3g} s" if row.seconds < 1000 else f" {row.seconds / 3600:.1f} h"
        text += f", extrapolated from {row.sample:.0f} candidates" * sampled
        axes.annotate(text, (row.seconds, place), va="center", fontsize=_style.SMALL)
    names = {
        "retraining": f"retraining ({NET}, width {WIDTH})",
        "kernel blocks": f"kernel blocks ({NET}, width {WIDTH})",
    }
    axes.set_yticks(range(len(table)), [names.get(name, name) for name in table.contender])
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.grid(False, axis="y")
    if len(table):
        first = table.iloc[0]
        axes.set_xscale("log")
        axes.set_xlim(table.seconds.min() / 3, table.seconds.max() * 1000)  # room for words
        axes.set_xlabel(f"seconds, L = {first.labelled}, U = {first.candidates}, O = {first.outputs}")


def _growth(axes: Axes, table: pd.DataFrame, what: str) -> None:
    for name, rows in table.groupby("contender"):
        axes.plot(
            rows[what], rows.seconds, "o-", color=LINES[name], label=name.removeprefix("posterior, "), markersize=3
        )
    if len(table):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(sorted(table[what].unique()))
        axes.xaxis.set_major_formatter("{x:g}")
