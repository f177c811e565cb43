"""The memory arithmetic of thesis 3.4, measured at several N and carried on to all of CIFAR-10."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.report import style

NAME = "pntk-memory"
TABLES = ("pntk-memory",)
TITLE = "Memory of eNTK and pNTK, measured and carried on to CIFAR-10"
KERNELS = {"entk": ("eNTK", "#D55E00", "o", 1.8e12), "pntk": ("pNTK", "#0072B2", "s", 18e9)}
WHOLE = 50_000  # training images of CIFAR-10


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    table = tables["pntk-memory"]
    rows = table[table["net"] == "fcn"].dropna(subset=["peak_bytes"])
    rows = rows[rows["width"] == rows["width"].min()]
    if rows.empty:
        return style.empty("No finished cells of the panel memory at this scale.")
    figure = Figure(figsize=(style.SINGLE_WIDTH, 2.6), layout="constrained")
    axes = figure.subplots()
    for kernel, (name, colour, marker, published) in KERNELS.items():
        mine = rows[rows["kernel"] == kernel].groupby("train_points")[["peak_bytes", "numbers", "bytes"]].max()
        axes.plot(
            mine.index, mine["peak_bytes"], color=colour, marker=marker, linestyle="", label=f"{name}, measured peak"
        )
        n = np.array([mine.index.min(), WHOLE])
        per_pair = mine["numbers"].iloc[-1] / mine.index[-1] ** 2  # O^2, or 1
        axes.plot(n, 8 * per_pair * n**2.0, color=colour, label=f"{name}, {per_pair:.0f} doubles a pair")
        axes.plot(WHOLE, published, color=colour, marker="*", markersize=9, linestyle="")
    axes.set(xscale="log", yscale="log", xlabel="training points N", ylabel="bytes")
    axes.legend(loc="upper left")
    style.footnote(
        figure,
        f"Scale {rows['scale'].iloc[0]}. Stars: the thesis' 1.8 TB and 18 GB. Peaks: growth of this process while the",
        f"kernel is made, {rows['bytes'].iloc[0] // rows['numbers'].iloc[0]}-byte numbers and all scratch included.",
    )
    return figure
