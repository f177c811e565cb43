"""Accuracy and, beside it, seconds per query, cycle by cycle (thesis figs 2.1a and 3.15)."""

from itertools import pairwise

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from bench.report import style as _style
from bench.studies.lookahead.figures import _curves


def draw(summary: pd.DataFrame, times: pd.DataFrame, panel: str) -> Figure:
    """The strategies of one panel. The thesis has bars and lines in one set of axes, where they hide each other."""
    shown, times = summary[summary["panel"] == panel], times[times["panel"] == panel]
    if shown.empty:
        return _style.empty(f"no finished cells for panel {panel}")
    times = times.assign(name=times["strategy"].str.partition("+timed=")[0])  # a timed sample stands for its strategy
    chosen = _style.styles([*shown["strategy"], *times["name"]])
    figure = Figure(figsize=(_style.TEXT_WIDTH, 2.3), layout="constrained")
    left, right = figure.subplots(1, 2)
    _curves.lines(left, dict(list(shown.groupby("strategy"))), chosen, "accuracy")
    _bars(right, times, chosen)
    left.set_title(_style.setting_title(shown.iloc[0]))
    right.set_title("time to choose")
    left.set_ylabel(_style.ACCURACY)
    right.set_ylabel("seconds per query")
    for axes, rows in ((left, shown), (right, times)):
        axes.set_xlabel(_style.LABELLED)
        if len(rows):
            _curves.ticks(axes, sorted(rows["labelled"].unique()), _style.TEXT_WIDTH / 2 - 0.6)
    drawn = set(shown["strategy"])
    _style.legend(figure, chosen, {name: _look(times, chosen, name) for name in chosen if name not in drawn})
    note = ""
    if len(times):
        machines = times.groupby(["device_name", "threads"]).groups
        note = f"Bars: {' and '.join(f'{name}, {count} thread' + 's' * (count > 1) for name, count in machines)}."
    if (extrapolated := times.loc[times["extrapolated"].astype(bool), "name"]).any():
        note += f" Hatched: {', '.join(extrapolated.unique())}, timed on a sample of the candidates, so no accuracy."
    _curves.footnote(figure, shown, (panel,), difference=False, note=note)
    return figure


def _bars(axes: Axes, times: pd.DataFrame, chosen: dict[str, dict]) -> None:
    """A group of bars per cycle, on a logarithmic axis."""
    axes.grid(visible=False, axis="x")
    present = [name for name in chosen if name in set(times["name"])]
    if not present:
        return
    step = min((b - a for a, b in pairwise(sorted(times["labelled"].unique()))), default=1)
    width = 0.8 * step / len(present)
    for place, name in enumerate(present):
        rows = times[times["name"] == name]
        places = rows["labelled"] + (place - (len(present) - 1) / 2) * width
        axes.bar(places, rows["seconds_mean"], width=width, linewidth=0.6, **_look(times, chosen, name))
    low, high = times["seconds_mean"].min() / 2, times["seconds_mean"].max() * 1.5
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(LogLocator(subs=(1,) if high > 50 * low else (1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _look(times: pd.DataFrame, chosen: dict[str, dict], name: str) -> dict:
    """Of a strategy's bars: hatched if extrapolated."""
    colour = chosen[name]["color"]
    if times.loc[times["name"] == name, "extrapolated"].any():
        return {"facecolor": "white", "edgecolor": colour, "hatch": "////"}
    return {"facecolor": colour}
