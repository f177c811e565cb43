"""The kernel engine's speed as a figure: how many times as fast as each peer, and how time grows."""

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.figures import _style

SHOWN = {
    "torch.func": ("#0072B2", "s", "torch.func"),
    "neural-tangents 1": ("#D55E00", "^", "neural-tangents, Jacobian contraction"),
    "neural-tangents 3": ("#E69F00", "v", "neural-tangents, structured derivatives"),
}
MODES = {"full": "eNTK", "pseudo": "pNTK"}
GROWTH = {
    "growth in N": ("points", "points N"),
    "growth in O": ("classes", "outputs O"),
    "growth in width": ("width", "k"),
}


def draw(table: pd.DataFrame) -> Figure:
    with mpl.rc_context(_style.STYLE):
        figure = Figure(figsize=(_style.TEXT_WIDTH, 5.2), layout="constrained")
        grid = figure.add_gridspec(2, 3, height_ratios=(2.2, 1))
        _ratios(figure.add_subplot(grid[0, :]), table[table.group == "peers"])
        for place, (group, (column, label)) in enumerate(GROWTH.items()):
            _growth(figure.add_subplot(grid[1, place]), table[table.group == group], column, label)
        return figure


def _ratios(axes: Axes, table: pd.DataFrame) -> None:
    """A row per case; right of the line, the engine is faster."""
    ours = table[table.contender == "ours"].set_index(["net", "width", "points", "output"]).seconds
    cases = list(ours.index)
    for name, (colour, marker, label) in SHOWN.items():
        rows = table[(table.contender == name) & table.seconds.notna()].set_index(ours.index.names).seconds
        ratios = (rows / ours).dropna()  # of cases that both have
        if len(ratios):
            rows = [cases.index(key) for key in ratios.index]
            axes.plot(ratios, rows, marker, color=colour, label=label, markersize=4)
    axes.axvline(1, color="0.2", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yticks(range(len(cases)), [f"{net} {width}, {MODES[o]}, N = {n}" for net, width, n, o in cases])
    axes.set_ylim(len(cases) - 0.4, -0.6)
    axes.set_xlabel("time of the peer / time of this engine")
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="lower right")


def _growth(axes: Axes, table: pd.DataFrame, column: str, label: str) -> None:
    for output, rows in table.groupby("output"):
        rows = rows.sort_values(column)
        axes.plot(rows[column], rows.seconds, "o-", label=MODES[output], markersize=3)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xticks(sorted(table[column].unique()), minor=False)
    axes.set_xlabel(f"{table.net.iloc[0]}: {label}" if len(table) else label)
    axes.set_ylabel("seconds" if column == "points" else "")
    if len(table):
        axes.legend()
