"""What each strategy buys, and how well the linearised look-ahead foretells what retraining does."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report import stats, style
from bench.studies.lookahead.curves import SETTING

NAME = "lookahead-diagnosis"
TABLES = ("lookahead-bought", "lookahead-audit")
TITLE = "What each strategy buys, and how well look-ahead foretells retraining"
SHOWN = {  # column -> factor, title
    "wrong": (100, "the network is\nwrong on it (%)"),
    "margin": (100, "margin would\nbuy it (%)"),
    "distance": (1, "distance to labelled\n(average: 1)"),
    "balance": (1, "balance of classes\n(equal: 1)"),
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    bought, audits = tables["lookahead-bought"], tables["lookahead-audit"]
    if bought.empty:
        return style.empty("no finished cells have bought anything at this scale")
    bought = bought[~bought["strategy"].str.contains("+audit=", regex=False)]  # which buys the same as without
    counted = bought.groupby(SETTING)["strategy"].nunique()
    bought = bought[(bought[SETTING] == list(counted.idxmax())).all(axis=1)]  # the setting with most strategies
    strategies = bought.groupby("strategy")["wrong"].mean().sort_values(kind="stable").index
    heights = [0.75 + 0.16 * len(strategies), *([2.1] if len(audits) else [])]
    figure = Figure(figsize=(style.TEXT_WIDTH, sum(heights)), layout="constrained")
    grid, left = figure.add_gridspec(len(heights), len(SHOWN), height_ratios=heights), None
    for place, (column, (factor, title)) in enumerate(SHOWN.items()):
        axes = figure.add_subplot(grid[0, place], sharey=left)
        _dots(axes, bought, strategies, column, factor)
        axes.set_title(title, size=style.SMALL)
        axes.tick_params(labelleft=left is None)
        left = left or axes
    if len(audits):
        _audits(figure.add_subplot(grid[1, :]), audits)
    first = bought.iloc[0]
    style.footnote(
        figure,
        f"Scale {first['scale']}; {first['data']}; {first['net']}, width {first['width']};",
        f"{style.seeds(bought.groupby('strategy')['seed'].nunique())}. Bars: 95% t-intervals over seeds.",
        "Dashed, above: all candidates.",
    )
    return figure


def _dots(axes: Axes, bought: pd.DataFrame, strategies: pd.Index, column: str, factor: float) -> None:
    looks = style.styles(strategies)
    for place, name in enumerate(strategies):
        runs = factor * bought[bought["strategy"] == name].groupby("seed")[column].mean()
        found, look = stats.describe(runs), looks[name]
        axes.plot([found["low"], found["high"]], [place, place], color=look["color"], linewidth=1.5)
        axes.plot(found["mean"], place, color=look["color"], marker=look["marker"], linestyle="")
    if column == "wrong":
        axes.axvline(factor * bought["wrong_of_all"].mean(), color="0.3", linewidth=0.8, linestyle="--", zorder=1)
    axes.set_yticks(range(len(strategies)), strategies)
    axes.set_ylim(-0.6, len(strategies) - 0.4)


def _audits(axes: Axes, audits: pd.DataFrame) -> None:
    widths = sorted(audits["width"].unique())
    for width, look in zip(widths, style.ladder(map(str, widths)).values(), strict=True):
        mine = audits[audits["width"] == width]
        for column, line in (("foretold", "-"), ("repeated", "--")):
            found = {n: stats.describe(part[column]) for n, part in mine.groupby("labelled")}
            label = f"width {width}" if line == "-" else None
            marked = look | {"linestyle": line, "marker": look["marker"] if line == "-" else ""}
            axes.plot(list(found), [each["mean"] for each in found.values()], label=label, **marked)
            low, high = ([each[key] for each in found.values()] for key in ("low", "high"))
            axes.fill_between(list(found), low, high, color=look["color"], alpha=0.12, linewidth=0)
    axes.axhline(0, color="0.3", linewidth=0.8, zorder=1)
    axes.set(
        xlabel=style.LABELLED, ylabel="rank correlation\nwith retraining", ylim=(min(-0.1, axes.get_ylim()[0]), 1.03)
    )
    axes.set_title("solid: the linearised look-ahead; dashed: retraining once more", size=style.SMALL)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), handlelength=1.6)
