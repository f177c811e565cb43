"""What figs A.5 to A.8 share: FCNs that differ in nonlinearity or initialisation, against width and against epochs."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style

COLOURS = ("#333333", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#D55E00", "#56B4E9", "#882255")


def draw(tables: dict[str, pd.DataFrame], quantity: str, label: str) -> Figure:
    """Left: at initialisation, against width. Right: at the greatest width, against epochs."""
    table = tables["pntk-summary"]
    rows = table[(table["panel"] == "thesis-A.5") & (table["quantity"] == quantity)]
    if rows.empty:
        return style.empty("No finished cells of thesis-A.5 at this scale.")
    figure = Figure(figsize=(style.TEXT_WIDTH * 0.8, 2.1), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = {
        net: net.partition("+")[2].replace("activation=", "").replace("init=", "init ") or "relu"
        for net in rows["net"].unique()
    }
    ordered = sorted(names, key=lambda net: (names[net] != "relu", names[net]))
    chosen = {net: {"color": COLOURS[k % len(COLOURS)], "marker": "osD^v<>p"[k % 8]} for k, net in enumerate(ordered)}
    wide = rows["width"].max()
    for net in ordered:
        mine = rows[rows["net"] == net]
        start = mine[mine["epoch"] == 0].sort_values("width")
        left.plot(start["width"], start["mean"], **chosen[net])
        late = mine[mine["width"] == wide].sort_values("epoch")
        right.plot(late["epoch"], late["mean"], **chosen[net])
        right.fill_between(
            late["epoch"], late["low"], late["high"], color=chosen[net]["color"], alpha=0.12, linewidth=0
        )
    left.set(xscale="log", xlabel="width", ylabel=label, title="at initialisation")
    left.set_xticks(sorted(rows["width"].unique()), [f"{width:,}" for width in sorted(rows["width"].unique())])
    left.minorticks_off()
    right.set(xlabel="epoch", title=f"width {wide:,}, in training")
    for axes in (left, right):
        style.log_axis(axes)
    right.set_xticks(sorted(rows["epoch"].unique()))
    style.legend(figure, {names[net]: chosen[net] for net in ordered})
    style.footnote(
        figure,
        f"Scale {rows['scale'].iloc[0]}; FCN, |D| = {rows['train_points'].iloc[0]:,}; {style.seeds(rows['n'])}.",
        "Shading: 95% t-interval.",
    )
    return figure
