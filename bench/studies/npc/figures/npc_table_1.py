"""NPC Table 1: accuracy of semi-supervised training by label count, as printed and as measured."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.npc.figures import _parts

NAME = "npc-table-1"
TABLES = ("npc-published", "npc-summary")
TITLE = "Table 1: accuracy by label count, as printed and here"
PANEL = "npc-table-1"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return compare(tables, PANEL)


def compare(tables: dict[str, pd.DataFrame], panel: str) -> Figure:
    """Printed means with standard deviations, measured ones likewise, and differences from passive learning."""
    printed, summed = (frame[frame["panel"] == panel] for frame in (tables["npc-published"], tables["npc-summary"]))
    if summed.empty:
        return style.empty(f"no finished cells of {panel} at this scale")
    chosen = _parts.looks([*printed["strategy"], *summed["strategy"]])
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.3), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _curves(left, printed, chosen, "published_mean", "published_sd", 1)
    _curves(middle, summed, chosen, "accuracy_mean", "accuracy_sd", 100)
    left.set_title("as printed", size=style.SMALL)
    middle.set_title("here", size=style.SMALL)
    left.set_ylabel(style.ACCURACY)
    counts = sorted(summed.loc[summed["strategy"] != "initial", "labelled"].unique())
    names = [name for name in chosen if name in set(summed["strategy"]) and name not in ("initial", "random")]
    for number, name in enumerate(names):
        shift = (number - (len(names) - 1) / 2) * 0.8 / max(1, len(names))
        for place, count in enumerate(counts):
            row = summed[(summed["strategy"] == name) & (summed["labelled"] == count)]
            if len(row) and row["difference_n"].iloc[0]:
                _parts.dots(right, place + shift, row, "difference", chosen[name], across=False)
    right.axhline(0, color=chosen.get("random", {"color": "0.3"})["color"], linewidth=0.9, zorder=1)
    right.set_xticks(range(len(counts)), [f"{count:,}" for count in counts])
    right.set_title("here, minus passive", size=style.SMALL)
    right.set_ylabel("points")
    for axes in (left, middle, right):
        axes.set_xlabel(style.LABELLED)
    _parts.legend(figure, chosen)
    _parts.footnote(
        figure,
        summed[summed["strategy"] != "initial"],
        "Bars: standard deviations; right: 95% intervals. Printed numbers are of three trials.",
    )
    return figure


def _curves(axes: Axes, rows: pd.DataFrame, chosen: dict, mean: str, sd: str, factor: float) -> None:
    for name, look in chosen.items():
        mine = rows[rows["strategy"] == name].sort_values("labelled")
        if mine.empty:
            continue
        middle, spread = factor * mine[mean], factor * mine[sd].fillna(0)
        low, high = spread.clip(upper=middle), spread.clip(upper=100 - middle)  # no accuracy beyond 0 and 100
        axes.errorbar(mine["labelled"], middle, yerr=[low, high], elinewidth=0.8, **look)
    axes.set_xticks(sorted(rows["labelled"].unique()))
