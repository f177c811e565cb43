"""What figs 3.2 to 3.14 and A.5 to A.9 share: a panel per architecture, a line per width, epochs on the axis.

Lines start at batch-norm statistics 0 and 1; a hollow mark at epoch 0 is after one pass over the data. A panel whose
networks do not fit their labels says so: there, nothing follows about trained kernels.
"""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.pntk import FITS

NETS = {"fcn": "FCN", "convnet": "ConvNet", "resnet18": "ResNet18", "wrn-16": "WRN-16-k"}
ORDER = list(NETS)
HEIGHT = 2.1  # inches of a row of panels


def draw(
    tables: dict[str, pd.DataFrame],
    quantity: str,
    label: str,
    panels: str = "thesis-3.2-",
    *,
    second: str | None = None,
    percent: bool = False,
    log: bool = True,
    zero: bool = False,
    note: str = "",
) -> Figure:
    """One quantity against epochs; `second` is drawn dashed beside it."""
    table = tables["pntk-summary"]
    rows = table[table["panel"].str.startswith(panels) & table["quantity"].isin([quantity, second or quantity])]
    if rows.empty:
        return style.empty(f"No finished cells of {panels}... at this scale.")
    groups = sorted(rows.groupby("panel"), key=lambda item: _order(item[1]["net"].iloc[0]))
    columns = min(len(groups), 4)
    figure = Figure(figsize=(max(style.SINGLE_WIDTH, style.TEXT_WIDTH * columns / 4), HEIGHT), layout="constrained")
    every = figure.subplots(1, columns, squeeze=False)[0]
    factor = 100 if percent else 1
    for axes, (_, group) in zip(every, groups, strict=False):
        series = {f"{width:,}": part for width, part in group.groupby("width")}
        chosen = style.ladder(series)
        for name, part in series.items():
            _line(axes, part[part["quantity"] == quantity], chosen[name], factor, name)
            if second:
                dashed = chosen[name] | {"linestyle": "--", "marker": ""}
                _line(axes, part[part["quantity"] == second], dashed, factor, None)
        if zero:
            axes.axhline(0, color="0.3", linewidth=0.8, zorder=1)
        if log:
            style.log_axis(axes)
        axes.set_title(_title(group))
        axes.set_xticks(sorted(group["epoch"].unique()))
        axes.set_xlabel("epoch")
        axes.legend(
            title="width",
            loc="upper left",
            bbox_to_anchor=(1, 1.02),
            borderaxespad=0,
            handlelength=1.6,
            labelspacing=0.2,
            fontsize=style.SMALL - 0.5,
            title_fontsize=style.SMALL,
        )
    every[0].set_ylabel(label)
    _footnote(figure, rows, note)
    return figure


def _line(axes: Axes, rows: pd.DataFrame, chosen: dict, factor: float, name: str | None) -> None:
    first = rows[rows["statistics"] != "one-pass"].sort_values("epoch")
    axes.plot(first["epoch"], factor * first["mean"], label=name, **chosen)
    if first["low"].notna().any():
        axes.fill_between(
            first["epoch"],
            factor * first["low"],
            factor * first["high"],
            color=chosen["color"],
            alpha=0.15,
            linewidth=0,
        )
    passed = rows[rows["statistics"] == "one-pass"]
    if not chosen["marker"]:
        return
    hollow = chosen | {"linestyle": "", "markerfacecolor": "white", "markersize": 5}
    axes.plot(passed["epoch"], factor * passed["mean"], **hollow)


def _order(net: str) -> int:
    name = net.partition("+")[0]
    return ORDER.index(name) if name in ORDER else len(ORDER)


def _title(rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    title = f"{NETS.get(first['net'].partition('+')[0], first['net'])}, |D| = {first['train_points']:,}"
    end = rows[rows["epoch"] == rows["epoch"].max()]
    if rows["epoch"].max() and end["train_accuracy"].min() < FITS:
        low, high = 100 * end["train_accuracy"].min(), 100 * end["train_accuracy"].max()
        title += (
            f"\nfits {low:.0f}-{high:.0f}% of labels" if round(low) < round(high) else f"\nfits {low:.0f}% of labels"
        )
    elif rows["epoch"].max():
        title += "\nfits its labels"
    return title


def _left_out(rows: pd.DataFrame) -> bool:
    """Whether seeds are missing that other quantities of the same networks have."""
    return bool((rows["n"] < rows["seeds"]).any())


def _footnote(figure: Figure, rows: pd.DataFrame, note: str) -> None:
    scale = rows["scale"].iloc[0]
    where = "docs/results-pntk.md" if scale == "cpu" else "pntk-departures.csv"
    hollow = "one-pass" in set(rows["statistics"])
    style.footnote(
        figure,
        f"Scale {scale}; {', '.join(style.DATASETS.get(name, name) for name in rows['dataset'].unique())};",
        f"{style.seeds(rows['n'])}. Shading: 95% t-interval.",
        "Hollow: batch-norm statistics after one pass, not 0 and 1." if hollow else "",
        "Singular kernels are left out." if _left_out(rows) else "",
        note,
        f"Departures: {where}.",
    )
