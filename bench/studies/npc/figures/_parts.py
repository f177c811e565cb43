"""What figures of the NPC study share: names and looks of strategies, intervals as dots with bars, small print."""

from collections.abc import Iterable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report import style

NAMES = {"random": "passive", "margin+map=softmax": "margin", "albl": "ALBL", "badge": "BADGE", "npc": "NPC"}
LOOKS = {
    "random": {"color": "#333333", "marker": "o"},
    "margin+map=softmax": {"color": "#009E73", "marker": "^"},
    "albl": {"color": "#E69F00", "marker": "P"},
    "badge": {"color": "#CC79A7", "marker": "D"},
    "npc": {"color": "#D55E00", "marker": "*", "markersize": 7},
    "npc+variant=paper": {"color": "#0072B2", "marker": "X"},
    "initial": {"color": "#999999", "marker": "_"},
}


def called(strategy: str) -> str:
    """The paper's name of a strategy; a variant by what it varies."""
    name, _, variant = strategy.partition("+variant=")
    return NAMES.get(strategy, f"NPC, {variant}" if name == "npc" and variant else strategy)


def shown(rows: pd.DataFrame, panel: str) -> pd.DataFrame:
    """The rows of a table of queries that a panel shows."""
    return rows[[panel in names.split() for names in rows["panels"].astype(str)]]


def looks(strategies: Iterable[str]) -> dict[str, dict]:
    """Strategy -> its look, the paper's first and in its order."""
    names = list(dict.fromkeys(strategies))
    others = style.styles(name for name in names if name not in LOOKS)
    order = [name for name in LOOKS if name in names] + sorted(others)
    return {name: {"linestyle": "-"} | (LOOKS.get(name) or others[name]) for name in order}


def dots(
    axes: Axes, place: float, rows: pd.DataFrame, value: str, look: dict, factor: float = 100, across: bool = True
) -> None:
    """One mean with its interval, of a single row: to the right (`across`) or upwards."""
    row = rows.iloc[0]
    middle, low, high = (factor * row[f"{value}_{key}"] for key in ("mean", "low", "high"))
    if value == "accuracy":  # intervals of few trials go beyond what an accuracy can be
        low, high = max(low, 0), min(high, 100)
    at, ends = [middle], [low, high]
    marked = look | {"linestyle": ""}
    if across:
        axes.plot(ends, [place, place], color=look["color"], linewidth=1.4)
        axes.plot(at, [place], **marked)
    else:
        axes.plot([place, place], ends, color=look["color"], linewidth=1.4)
        axes.plot([place], at, **marked)


def legend(figure: Figure, chosen: dict[str, dict]) -> None:
    style.legend(figure, {called(name): look for name, look in chosen.items()})


def footnote(figure: Figure, rows: pd.DataFrame, *notes: str, panel: str = "") -> None:
    """Scale, data, net and number of trials of the rows of one or more panels."""
    if rows.empty:  # only the initial model has run
        return
    first = rows.iloc[0]
    where = "docs/results-npc.md" if first["scale"] == "cpu" else "npc-departures.csv"
    widths = " and ".join(str(width) for width in rows["width"].unique())
    about = f"Scale {first['scale']}; {first['data']}; {first['net']}, width {widths};"
    trials = rows["n"] if "n" in rows else rows.groupby("strategy")["seed"].nunique()
    counted = style.seeds(trials).replace("seeds", "trials").replace("seed", "trial")
    departs = "" if first["scale"] == "paper" else f"Departs from the paper: see {where}."
    style.footnote(figure, about, f"{counted}.", *notes, departs)
