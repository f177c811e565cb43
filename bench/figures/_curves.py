"""Learning curves, one set of axes per panel: accuracy (thesis fig. A.4) or difference to random (figs 2.2, A.1)."""

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.figures import _style

SETTING = ["dataset", "net", "width", "recipe"]
NUMBER = 0.28  # inches that a number such as 97.3 takes


def draw(summary: pd.DataFrame, panels: tuple[str, ...], difference: bool) -> Figure:
    """One panel per set of axes, in rows of up to three, one legend above and the small print below."""
    shown = (_by_panel if difference else _by_setting)(summary, panels)
    if not shown:
        return _style.empty(f"no finished cells for panels {', '.join(panels)}")
    columns = {1: 1, 2: 2, 4: 2}.get(len(shown), 3)
    rows = math.ceil(len(shown) / columns)
    width = _style.COLUMN_WIDTH if columns == 1 else _style.TEXT_WIDTH
    names = [f"{label} {_style.setting_title(table.iloc[0])}" for label, table in shown.items()]
    titles = [_style.wrap(name, width / columns - 0.2, 8, gap="(?<=[,:]) ") for name in names]
    figure = Figure(figsize=(width, rows * (2.05 + 0.13 * max(title.count("\n") for title in titles))))
    figure.set_layout_engine("constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    chosen = _style.styles(pd.concat(shown.values())["strategy"])
    inches = width / columns - 0.55
    for place, (axes, title, table) in enumerate(zip(grid.flat, titles, shown.values(), strict=False)):
        if difference:
            _differences(axes, table, chosen, inches)
        else:
            _lines(axes, table, chosen, "accuracy")
        axes.set_title(title)
        _ticks(axes, sorted(table["labelled"].unique()), inches)
        axes.set_xlabel(_style.LABELLED if place + columns >= len(shown) else "")
        axes.set_ylabel((_style.DIFFERENCE if difference else _style.ACCURACY) if place % columns == 0 else "")
    for axes in list(grid.flat)[len(shown) :]:
        axes.remove()
    figure.align_ylabels()
    _style.legend(figure, chosen)
    _footnote(figure, summary[summary["panel"].isin(panels)], panels, difference)
    return figure


def _by_panel(summary: pd.DataFrame, panels: tuple[str, ...]) -> dict[str, pd.DataFrame]:
    """Label -> rows, of each panel that has any: `(a)` for thesis-2.2a."""
    return {f"({name[-1]})": rows for name in panels if len(rows := summary[summary["panel"] == name])}


def _by_setting(summary: pd.DataFrame, panels: tuple[str, ...]) -> dict[str, pd.DataFrame]:
    """The same with panels of one setting, as small scales have them, put together: `2.2a = A.1a:`."""
    together = {}
    for _, rows in summary[summary["panel"].isin(panels)].groupby(SETTING):
        names = [_short(name) for name in panels if name in set(rows["panel"])]
        together[f"{' = '.join(names)}:"] = rows.drop_duplicates(["strategy", "cycle"])
    return dict(sorted(together.items()))


def _short(panel: str) -> str:
    return panel.removeprefix("thesis-")


def _differences(axes: Axes, table: pd.DataFrame, chosen: dict[str, dict], inches: float) -> None:
    """Random is the zero line; its accuracies stand in a strip of their own, where no curve can cover them."""
    if table["difference_mean"].isna().all():
        axes.text(0.5, 0.5, "no finished cells\nof random", ha="center", va="center", transform=axes.transAxes)
        axes.set_yticks([])
        return
    _lines(axes, table, chosen, "difference")
    random = table[table["strategy"] == "random"]
    upright = inches < NUMBER * len(random)
    strip = 0.27 if upright else 0.17  # part of the height
    low, high = axes.dataLim.intervaly
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


def _lines(axes: Axes, table: pd.DataFrame, chosen: dict[str, dict], value: str) -> None:
    for height, (strategy, style) in enumerate(chosen.items()):
        rows = table[table["strategy"] == strategy].sort_values("labelled")
        rows = rows[rows[f"{value}_mean"].notna()]
        mean, low, high = (100 * rows[f"{value}_{part}"] for part in ("mean", "low", "high"))
        if len(rows):
            axes.plot(rows["labelled"], mean, label=strategy, zorder=3 + 0.01 * height, **style)
        if len(rows) == 1:  # a single cycle has no width to shade
            axes.vlines(rows["labelled"], low, high, color=style["color"], alpha=0.5)
        elif low.notna().any():
            axes.fill_between(rows["labelled"], low, high, color=style["color"], alpha=0.15, linewidth=0, zorder=2)


def _ticks(axes: Axes, labelled: list[int], inches: float) -> None:
    """Ticks at cycles only, as many as there is room for."""
    room = max(2, int(inches / (0.12 + 0.055 * len(f"{labelled[-1]:,}"))))
    ticks = labelled[:: math.ceil(len(labelled) / room)]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    if len(labelled) == 1:
        axes.set_xlim(labelled[0] - 1, labelled[0] + 1)
    else:
        axes.margins(x=0.1)


def _footnote(figure: Figure, table: pd.DataFrame, panels: tuple[str, ...], difference: bool) -> None:
    missing = [name for name in panels if name not in set(table["panel"])]
    n = table["difference_n" if difference else "n"]
    deviations = {name: rows["deviations"].iloc[0] for name, rows in table.groupby("panel")}
    interval = "Lines: mean over seeds; shading: 95% t-interval of the mean." if n.max() > 1 else ""
    _style.footnote(
        figure,
        f"Scale {table['scale'].iloc[0]}; {'; '.join(table['data'].unique())}; {_style.seeds(n)}; "
        f"device {', '.join(table['device'].unique())}.",
        interval,
        "Numbers: random's accuracy (%) at each cycle." if difference else "",
        _style.departures({_short(name): text for name, text in deviations.items()}),
        f"No finished cells: {', '.join(map(_short, missing))}." if missing else "",
    )
