"""A kernel measurement's cost as a figure: the in-place factor beside its peers, and the phases as N grows."""

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bench.report import style
from bench.tools.perf.pntk import BASE, PHASES

BAR = 1.3  # times torch's seconds: as slow as the in-place factor may be
LOOKS = {"in place": ("#D55E00", "o"), "scipy": ("0.5", "s")}
COLOURS = dict(zip(PHASES, ("#0072B2", "#56B4E9", "#D55E00", "#999933", "#AA4499"), strict=True))


def draw(table: pd.DataFrame) -> Figure:
    solver, points = (
        table[(table.group == "solver") & (table.threads == 1)],
        table[table.group.isin(["base", "points"])],
    )
    if solver.empty or points.empty:
        return style.empty("not all of solvers and phases were timed")
    with mpl.rc_context(style.STYLE):
        figure = Figure(figsize=(style.TEXT_WIDTH, 2.7), layout="constrained")
        left, right = figure.subplots(1, 2)
        for axes in (left, right):
            axes.set_xscale("log")
        _solvers(left, solver)
        _phases(right, points)
        for axes in (left, right):
            axes.minorticks_off()
        style.footnote(
            figure,
            f"With one thread. Dotted: {BAR}, the most that the in-place factor may take.",
            f"Right: a fully-connected net of width {BASE.width} with O = {BASE.outputs} outputs, in float64.",
            f"On {table.processor.iloc[0]}.",
        )
        return figure


def _solvers(axes: Axes, table: pd.DataFrame) -> None:
    seconds = table.pivot(index=["dtype", "n"], columns="what", values="processor_seconds")
    for what, (colour, marker) in LOOKS.items():
        for dtype, line in (("float32", "-"), ("float64", "--")):
            times = (seconds[what] / seconds.torch).loc[dtype]
            axes.plot(times.index, times, line, color=colour, marker=marker, label=f"{what}, {dtype}")
    axes.axhline(1, color="0.2", linewidth=0.8)
    axes.axhline(BAR, color="0.2", linewidth=0.8, linestyle=":")
    sizes = sorted(table.n.unique())
    axes.set_xticks(sizes, [f"{n:,.0f}" for n in sizes])
    axes.set_ylim(0, None)
    axes.set_xlabel("rows n of the kernel")
    axes.set_ylabel("processor time / that of torch")
    axes.set_title("Cholesky factor")
    axes.legend()


def _phases(axes: Axes, table: pd.DataFrame) -> None:
    seconds = table.pivot(index=["output", "points"], columns="what", values="processor_seconds")[list(PHASES)]
    full = seconds.loc["full"]
    for phase in PHASES:
        axes.plot(full.index, full[phase], color=COLOURS[phase], marker="o", label=phase)
    pseudo = seconds.loc["pseudo"].sum(axis=1)
    axes.plot(pseudo.index, pseudo, "--", color="0.3", marker="s", label="pNTK, all phases")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xticks(full.index, [f"{n:,.0f}" for n in full.index])
    axes.set_xlabel("points N")
    axes.set_ylabel("processor seconds")
    axes.set_title("Phases of a measurement with the eNTK")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), handlelength=1.5)
