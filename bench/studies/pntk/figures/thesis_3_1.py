"""Thesis fig. 3.1: seconds for the eNTK and the pNTK of one pair of inputs, over outputs and depths of ResNets."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style

NAME = "thesis-3.1"
TABLES = ("pntk-pairs",)
TITLE = "Time for one pair of inputs: the eNTK's grows with the number of outputs, the pNTK's does not"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["pntk-pairs"]
    if rows.empty:
        return style.empty("No finished cells of thesis-3.1 at this scale.")
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    depths = sorted(rows["net"].unique(), key=lambda net: int(net.removeprefix("resnet")))
    outputs = sorted(rows["outputs"].unique())
    chosen = style.ladder(f"ResNet{net.removeprefix('resnet')}" for net in depths)
    for net, look in zip(depths, chosen.values(), strict=True):
        for kernel, line in (("entk", "-"), ("pntk", ":")):
            mine = rows[(rows["net"] == net) & (rows["kernel"] == kernel)].sort_values("outputs")
            left.plot(mine["outputs"], mine["seconds"], **look | {"linestyle": line})
            left.vlines(mine["outputs"], mine["low"], mine["high"], color=look["color"], linewidth=0.8)
        ratio = rows[(rows["net"] == net) & (rows["kernel"] == "entk")].sort_values("outputs")
        right.plot(ratio["outputs"], ratio["ratio"], **look)
    for axes in (left, right):
        axes.set(xscale="log", xlabel="outputs O")
        style.log_axis(axes)
        axes.set_xticks(outputs, [f"{o:,}" for o in outputs])
        axes.minorticks_off()
    left.set(ylabel="seconds for one pair", title="solid: eNTK, dotted: pNTK")
    right.set(ylabel="eNTK / pNTK", title="ratio")
    style.legend(figure, chosen)
    machine = ", ".join(rows["device_name"].unique())
    threads = "/".join(str(count) for count in sorted(rows["threads"].unique()))
    repeats = rows["n"].min()
    style.footnote(
        figure,
        f"Scale {rows['scale'].iloc[0]}; torchvision's ResNets, images of 32 x 32; {machine}, threads: {threads}.",
        f"Median of {repeats} repetitions after one to warm up; bars: quartiles.",
    )
    return figure
