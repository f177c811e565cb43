"""Learning curves, one set of axes per part: accuracy (thesis fig. A.4) or difference from random (figs 2.2, A.1)."""

import math
from dataclasses import dataclass
from fnmatch import fnmatch

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from bench.report import style as _style
from bench.studies.lookahead.figures import departs

SETTING = ["dataset", "net", "width", "recipe"]
NUMBER = 0.28  # inches that a number such as 97.3 takes
CROWD = 12  # more lines than this are not shaded
FEW = 3  # datasets or panels that a footnote has room to describe one by one


@dataclass
class Part:
    """What one set of axes shows."""

    title: str
    series: dict[str, pd.DataFrame]  # name in the legend -> rows of the table lookahead-summary, one per cycle
    difference: bool = False  # to random, instead of the accuracy itself
    named: str = ""  # what the values are, if not just that
    compared: bool = False  # with other such parts: they have one range of values


def draw(summary: pd.DataFrame, panels: tuple[str, ...], difference: bool, note: str = "") -> Figure:
    """One panel per set of axes, a line per strategy."""
    shown = (_by_panel if difference else _by_setting)(summary, panels)
    parts = [
        Part(f"{label} {_style.setting_title(table.iloc[0])}", dict(list(table.groupby("strategy"))), difference)
        for label, table in shown.items()
    ]
    names = [name for part in parts for name in part.series]
    return compose(summary, panels, parts, _style.styles(names), note)


def compose(
    summary: pd.DataFrame, panels: tuple[str, ...], parts: list[Part], chosen: dict[str, dict], note: str = ""
) -> Figure:
    """The parts in rows of up to three, one legend above, and below the small print on the panels (or patterns)."""
    parts = [part for part in parts if part.series]
    if not parts:
        return _style.empty(f"no finished cells for panels {', '.join(panels)}")
    columns = {1: 1, 2: 2, 4: 2}.get(len(parts), 3)
    rows = math.ceil(len(parts) / columns)
    width = _style.SINGLE_WIDTH if columns == 1 else _style.TEXT_WIDTH
    titles = [_style.wrap(part.title, width / columns - 0.2, 8, gap="(?<=[,:=]) ") for part in parts]
    figure = Figure(figsize=(width, rows * (2.05 + 0.13 * max(title.count("\n") for title in titles))))
    figure.set_layout_engine("constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    inches = width / columns - 0.55
    for place, (axes, title, part) in enumerate(zip(grid.flat, titles, parts, strict=False)):
        if part.difference:
            _differences(axes, part.series, chosen, inches)
        else:
            lines(axes, part.series, chosen, "accuracy")
        axes.set_title(title)
        ticks(axes, sorted(set(pd.concat(part.series.values())["labelled"])), inches)
        axes.set_xlabel(_style.LABELLED if place + columns >= len(parts) else "")
        before = parts[place - 1].difference if place % columns else None
        named = part.named or (_style.DIFFERENCE if part.difference else _style.ACCURACY)
        axes.set_ylabel(named if part.named or part.difference != before else "")
    for axes in list(grid.flat)[len(parts) :]:
        axes.remove()
    together = [axes for axes, part in zip(figure.axes, parts, strict=True) if part.compared]
    ranges = [axes.get_ylim() for axes in together]
    for axes in together:
        axes.set_ylim(min(low for low, _ in ranges), max(high for _, high in ranges))
    figure.align_ylabels()
    _style.legend(figure, {name: style for name, style in chosen.items() if any(name in part.series for part in parts)})
    if any(part.difference and "random" in part.series for part in parts):
        note = " ".join(filter(None, ["Numbers: random's accuracy (%).", note]))
    footnote(figure, of_panels(summary, panels), panels, any(part.difference for part in parts), note)
    return figure


def of_panels(summary: pd.DataFrame, panels: tuple[str, ...]) -> pd.DataFrame:
    """The rows of the panels, which may be patterns such as `thesis-2.3-width-*`."""
    return summary[[any(fnmatch(name, panel) for panel in panels) for name in summary["panel"]]]


def _by_panel(summary: pd.DataFrame, panels: tuple[str, ...]) -> dict[str, pd.DataFrame]:
    """Label -> rows, of each panel that has any: `(a)` for thesis-2.2a."""
    return {f"({name[-1]})": rows for name in panels if len(rows := summary[summary["panel"] == name])}


def _by_setting(summary: pd.DataFrame, panels: tuple[str, ...]) -> dict[str, pd.DataFrame]:
    """The same with panels of one setting, as small scales have them, put together: `2.2a = A.1a:`."""
    together = {}
    for _, rows in summary[summary["panel"].isin(panels)].groupby(SETTING):
        names = [short(name) for name in panels if name in set(rows["panel"])]
        together[f"{' = '.join(names)}:"] = rows.drop_duplicates(["strategy", "cycle"])
    return dict(sorted(together.items()))


def short(panel: str) -> str:
    return panel.removeprefix("thesis-")


def _differences(axes: Axes, series: dict[str, pd.DataFrame], chosen: dict[str, dict], inches: float) -> None:
    """Random is the zero line; its accuracies stand in a strip of their own, where no curve can cover them."""
    if all(rows["difference_mean"].isna().all() for rows in series.values()):
        axes.text(0.5, 0.5, "no finished cells\nof random", ha="center", va="center", transform=axes.transAxes)
        axes.set_yticks([])
        return
    lines(axes, series, chosen, "difference")
    if "random" not in series:
        axes.axhline(0, color="0.3", linewidth=0.8, zorder=1)
        return
    random = series["random"]
    upright = inches < NUMBER * len(random)
    strip = 0.27 if upright else 0.17  # part of the height
    low, high = _span(series)
    span = max(high - low, 0.5)  # percentage points; less would blow noise up
    low, high = (low + high - span) / 2, (low + high + span) / 2
    axes.set_ylim(low - span * strip / (0.95 - strip), high + span * 0.05 / (0.95 - strip))
    axes.set_yticks([tick for tick in axes.get_yticks() if low - 0.03 * span <= tick <= high + 0.05 * span])
    for labelled, accuracy in zip(random["labelled"], 100 * random["accuracy_mean"], strict=True):
        axes.text(
            *(labelled, 0.02, f"{accuracy:.1f}"),
            transform=axes.get_xaxis_transform(),
            rotation=90 if upright else 0,
            **{"ha": "center", "va": "bottom", "size": _style.SMALL, "color": chosen["random"]["color"]},
        )


def _span(series: dict[str, pd.DataFrame]) -> tuple[float, float]:
    """Lowest and highest difference (points) of lines and shading; without a strategy that would squeeze the rest.

    That is one that alone makes the range more than three times as large, as LL4AL does where it fails to learn.
    """

    def reach(names: list[str]) -> tuple[float, float]:
        rows = pd.concat([series[name] for name in names])
        values = 100 * rows[["difference_mean", "difference_low", "difference_high"]]
        return float(values.min(axis=None)), float(values.max(axis=None))

    low, high = reach(list(series))
    for name in series:
        others = [other for other in series if other != name]
        if len(others) > 1:
            least, most = reach(others)
            if high - low > 3 * max(most - least, 0.5):
                return least, most
    return low, high


def lines(axes: Axes, series: dict[str, pd.DataFrame], chosen: dict[str, dict], value: str) -> None:
    for height, (name, style) in enumerate(chosen.items()):
        if name not in series:
            continue
        rows = series[name].sort_values("labelled")
        rows = rows[rows[f"{value}_mean"].notna()]
        mean, low, high = (100 * rows[f"{value}_{part}"] for part in ("mean", "low", "high"))
        if value == "accuracy":  # intervals of few seeds go beyond what an accuracy can be
            low, high = low.clip(lower=0), high.clip(upper=100)
        if len(rows):
            axes.plot(rows["labelled"], mean, label=name, zorder=3 + 0.01 * height, **style)
        if len(rows) == 1:  # a single cycle has no width to shade
            axes.vlines(rows["labelled"], low, high, color=style["color"], alpha=0.5)
        elif low.notna().any() and len(series) <= CROWD:
            axes.fill_between(rows["labelled"], low, high, color=style["color"], alpha=0.15, linewidth=0, zorder=2)


def ticks(axes: Axes, labelled: list[int], inches: float) -> None:
    """Ticks at cycles only, as many as there is room for."""
    room = max(2, int(inches / (0.12 + 0.055 * len(f"{labelled[-1]:,}"))))
    ticks = labelled[:: math.ceil(len(labelled) / room)]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    if len(labelled) == 1:
        axes.set_xlim(labelled[0] - 1, labelled[0] + 1)
    else:
        axes.margins(x=0.1)


def footnote(figure: Figure, table: pd.DataFrame, panels: tuple[str, ...], difference: bool, note: str = "") -> None:
    missing = [short(name) for name in panels if not any(fnmatch(found, name) for found in table["panel"])]
    n = table["difference_n" if difference else "n"]
    shaded = any(isinstance(drawn, PolyCollection) for axes in figure.axes for drawn in axes.collections)
    again = table.groupby([*SETTING, "strategy"])["diverged"].max().sum()  # a run once, however many panels share it
    sizes = {text.partition(", ")[0]: text.partition(", ")[2] for text in table["data"].unique()}
    data = "; ".join(f"{name}, {rest}" for name, rest in sizes.items()) if len(sizes) < FEW else ", ".join(sizes)
    _style.footnote(
        figure,
        f"Scale {table['scale'].iloc[0]}{_devices(table)}; {data}; {_style.seeds(n)}.",
        "Shading: 95% t-interval." if shaded and n.max() > 1 else "",
        note,
        f"Diverged: {again} runs." if again else "",
        f"No cells: {', '.join(missing) if len(missing) < FEW else f'{len(missing)} panels'}." if missing else "",
        departs(table["scale"].iloc[0]) if set(table["deviations"].dropna()) - {""} else "",
    )


def _devices(table: pd.DataFrame) -> str:
    """Named where not all is from a CPU: results of different devices are marked."""
    devices = sorted(table["device"].unique())
    return "" if devices == ["cpu"] else f", on {', '.join(devices)}"
