"""What figs 3.9 to 3.12, 3.14 and A.9 share: regression with the pNTK of a whole dataset, against epochs."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import stats, style
from bench.studies.pntk.figures._epochs import HEIGHT, NETS, ORDER


def draw(
    tables: dict[str, pd.DataFrame],
    column: str,
    label: str,
    *,
    second: str | None = None,
    zero: bool = False,
    note: str = "",
) -> Figure:
    """A panel per architecture and size of the training set, a line per width; `second` dashed beside it."""
    table = tables["pntk-full"]
    rows = table[table["panel"].str.startswith("thesis-3.9-") & table[column].notna()]
    if rows.empty:
        return style.empty("No finished cells of thesis-3.9-... at this scale.")
    groups = sorted(
        rows.groupby(["net", "train_points"]), key=lambda item: (ORDER.index(item[0][0].partition("+")[0]), item[0][1])
    )
    size = (max(style.SINGLE_WIDTH, style.TEXT_WIDTH * len(groups) / 4), HEIGHT)
    figure = Figure(figsize=size, layout="constrained")
    for axes, ((net, points), group) in zip(figure.subplots(1, len(groups), squeeze=False)[0], groups, strict=True):
        series = {f"{width:,}": part for width, part in group.groupby("width")}
        for name, chosen in style.ladder(series).items():
            _line(axes, series[name], column, chosen, name)
            if second:
                _line(axes, series[name], second, chosen | {"linestyle": "--", "marker": ""}, None)
        if zero:
            axes.axhline(0, color="0.3", linewidth=0.8, zorder=1)
        axes.set(title=f"{NETS[net.partition('+')[0]]}, N = {points:,}", xlabel="epoch")
        axes.set_xticks(sorted(group["epoch"].unique()))
        axes.legend(title="width", handlelength=1.6, labelspacing=0.2, title_fontsize=style.SMALL)
    figure.axes[0].set_ylabel(label)
    scale = rows["scale"].iloc[0]
    where = "docs/results-pntk.md" if scale == "cpu" else "pntk-departures.csv"
    counts = rows.groupby(["net", "train_points", "width", "epoch"])["seed"].nunique()
    data = ", ".join(style.DATASETS.get(name, name) for name in rows["dataset"].unique())
    texts = (f"Scale {scale}; {data}; {style.seeds(counts)}.", "Shading: 95% t-interval." if counts.max() > 1 else "")
    style.footnote(figure, *texts, note, f"Departures: {where}.")
    return figure


def _line(axes, rows: pd.DataFrame, column: str, chosen: dict, name: str | None) -> None:
    found = {epoch: stats.describe(100 * part[column]) for epoch, part in rows.groupby("epoch")}
    axes.plot(list(found), [each["mean"] for each in found.values()], label=name, **chosen)
    low, high = ([each[key] for each in found.values()] for key in ("low", "high"))
    axes.fill_between(list(found), low, high, color=chosen["color"], alpha=0.15, linewidth=0)
