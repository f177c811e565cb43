"""The speed of semi-supervised machinery as a figure: where a step's time goes, and how much longer peers take."""

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report import style
from bench.tools.perf import semi_ratios
from bench.tools.perf.semi_ratios import FASTER, PARTS, REFRESH, SHARE, STRONG, VIEWS, WEAK

BESIDE = {"loc": "upper left", "bbox_to_anchor": (1, 1)}  # of a panel: its legend
COLOURS = dict(zip(PARTS, ("#56B4E9", "#0072B2", "0.8", "#999933", "0.5"), strict=True))
REFRESHES = {"newton": ("#D55E00", "o"), "released": ("#999933", "s"), "plain loop": ("0.5", "^")}
SOLVERS = {
    "eigvalsh": ("#0072B2", "o", "-"),
    "eigvalsh, d x d": ("#56B4E9", "o", "--"),
    "scipy lobpcg": ("0.5", "s", "-"),
    "torch lobpcg": ("0.2", "^", ":"),
}


def draw(table: pd.DataFrame) -> Figure:
    alone = table[table.threads == 1]
    if set(semi_ratios.KEYS) - set(alone.group):
        return style.empty("not all of a step, DARP's refresh and NPC's search were timed")
    with mpl.rc_context(style.STYLE):
        figure = Figure(figsize=(style.TEXT_WIDTH, 4.4), layout="constrained")
        (steps, views), (refreshes, searches) = figure.subplots(2, 2)
        _steps(steps, semi_ratios.shares(alone))
        _views(views, semi_ratios.views(alone))
        _refreshes(refreshes, semi_ratios.seconds(alone, "darp"))
        _searches(searches, semi_ratios.searches(alone))
        style.footnote(
            figure,
            "Processor time of one thread. Dotted: what is wanted of this suite.",
            "Peers of NPC's search, and the loop of the largest refresh, are extrapolated from a part of the work.",
            f"On {table.processor.iloc[0]}.",
        )
        return figure


def _named(axes: Axes, cases: pd.Index) -> None:
    """A line of the panel for each training."""
    labels = [f"{views}, {net.partition('+')[0]}\nB = {batch:.0f}" for views, net, _, batch, _ in cases]
    axes.set_yticks(range(len(cases)), labels)
    axes.set_ylim(len(cases) - 0.4, -0.6)
    axes.grid(False, axis="y")


def _steps(axes: Axes, shares: pd.DataFrame) -> None:
    left = 0
    for part in PARTS:
        axes.barh(
            range(len(shares)), 100 * shares[part], left=left, color=COLOURS[part], height=0.6, linewidth=0, label=part
        )
        left = left + 100 * shares[part]
    axes.axvline(100 * SHARE, color="0.2", linewidth=0.8, linestyle=":")
    _named(axes, shares.index)
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of a step's time")
    axes.set_title("A step of FixMatch")
    axes.legend(**BESIDE, handlelength=1)


def _views(axes: Axes, times: pd.DataFrame) -> None:
    for what, marker in ((WEAK, "o"), (STRONG, "s")):
        axes.plot(times[what], range(len(times)), marker, color=COLOURS[what], label=what)
    axes.plot(times.both, range(len(times)), "|", color="0.2", markersize=12, label="both")
    axes.axvline(VIEWS, color="0.2", linewidth=0.8, linestyle=":")
    _named(axes, times.index)
    style.log_axis(axes, "x")
    axes.set_xlabel("time of PIL, image by image / ours")
    axes.set_title("Views")
    axes.legend(**BESIDE, handlelength=1)


def _refreshes(axes: Axes, seconds: pd.DataFrame) -> None:
    for what, (colour, marker) in REFRESHES.items():
        axes.plot(range(len(seconds)), seconds[what], color=colour, marker=marker, label=what)
    axes.axhline(REFRESH, color="0.2", linewidth=0.8, linestyle=":")
    style.log_axis(axes)
    axes.set_xticks(range(len(seconds)), [f"{rows:,.0f}\nx {classes:.0f}" for rows, classes in seconds.index])
    axes.set_xlabel("rows x classes")
    axes.set_ylabel("seconds")
    axes.set_title("DARP: refined labels of a pool")
    axes.legend(**BESIDE, handlelength=1.5)


def _searches(axes: Axes, times: pd.DataFrame) -> None:
    points = times.index.get_level_values("points")
    for what, (colour, marker, line) in SOLVERS.items():
        axes.plot(points, times[what], line, color=colour, marker=marker, label=what)
    axes.axhline(1, color="0.2", linewidth=0.8)
    axes.axhline(FASTER, color="0.2", linewidth=0.8, linestyle=":")
    style.log_axis(axes)
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(points, [f"{n:.0f}" for n in points])
    axes.set_xlabel("points N")
    axes.set_ylabel("time / ours")
    axes.set_title("NPC: best of 1,000 batches")
    axes.legend(**BESIDE, handlelength=1.5)
