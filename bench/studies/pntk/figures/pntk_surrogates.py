"""Not in the thesis: what else might stand for the eNTK. A scoreboard by error, agreement, accuracy and time."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style

NAME = "pntk-surrogates"
TABLES = ("pntk-surrogates",)
TITLE = "Scoreboard of kernels that stand for the eNTK"
KERNELS = {"entk": "eNTK", "pntk": "pNTK", "one-logit": "one logit", "trace": "trace / O", "infinite": "infinite NTK"}
COLUMNS = {
    "frobenius_scaled": "Frobenius error,\nbest scale",
    "tau": "Kendall's tau\nwith the eNTK",
    "accuracy": "accuracy (%)",
    "seconds": "seconds",
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    table = tables["pntk-surrogates"]
    rows = table[table["panel"] == "surrogates"]
    if rows.empty:
        return style.empty("No finished cells of the panel surrogates at this scale.")
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.3), layout="constrained")
    kernels = [kernel for kernel in KERNELS if kernel in set(rows["kernel"])]
    settings = list(rows.groupby(["net", "epoch"], sort=True))
    looks = style.ladder(_name(net, epoch) for (net, epoch), _ in settings)
    for axes, (column, label) in zip(figure.subplots(1, len(COLUMNS), sharey=True), COLUMNS.items(), strict=True):
        for place, ((net, epoch), group) in enumerate(settings):
            look = looks[_name(net, epoch)] | {"linestyle": ""}
            found = group.set_index("kernel").reindex(kernels)
            factor = 100 if column == "accuracy" else 1
            height = [k + 0.16 * (place - (len(settings) - 1) / 2) for k in range(len(kernels))]
            axes.plot(factor * found[column], height, **look)
            if f"{column}_low" in found:
                axes.hlines(
                    height, factor * found[f"{column}_low"], factor * found[f"{column}_high"], color=look["color"]
                )
        axes.set_xlabel(label)
        if column == "seconds":
            axes.set_xscale("log")
        axes.set_yticks(range(len(kernels)), [KERNELS[kernel] for kernel in kernels])
        axes.invert_yaxis() if axes is figure.axes[0] else None
    style.legend(figure, looks)
    first = rows.iloc[0]
    style.footnote(
        figure,
        f"Scale {first['scale']}; FCN of width {first['width']:,}, |D| = {first['train_points']:,};",
        f"{style.seeds(rows['n'])}. Bars: 95% t-interval. Predictions without the network as prior.",
    )
    return figure


def _name(net: str, epoch: int) -> str:
    law = "torch's init" if "init=torch" in net else "He's init"
    return f"{law}, epoch {epoch}"
