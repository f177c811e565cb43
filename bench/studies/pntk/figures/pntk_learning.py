"""Accuracy of pNTK regression against the size of the training set, from leading blocks of one Cholesky factor."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import stats, style

NAME = "pntk-learning"
TABLES = ("pntk-learning",)
TITLE = "Accuracy of pNTK regression against the number of training images"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    table = tables["pntk-learning"]
    if table.empty:
        return style.empty("No finished cells of thesis-3.9-... at this scale.")
    chosen = table[table["net"].str.partition("+")[0] == "fcn"]
    if chosen.empty:
        return style.empty("No finished cells of an FCN in thesis-3.9-... at this scale.")
    largest = chosen.groupby("recipe")["size"].transform("max")
    chosen = chosen[largest == largest.max()]
    figure = Figure(figsize=(style.SINGLE_WIDTH, 2.6), layout="constrained")
    axes = figure.subplots()
    settings = list(chosen.groupby(["width", "epoch"]))
    looks = style.ladder(f"width {width:,}, epoch {epoch}" for (width, epoch), _ in settings)
    for ((_, _), rows), look in zip(settings, looks.values(), strict=True):
        for column, line in (("accuracy", "-"), ("accuracy_without_prior", "--")):
            found = {size: stats.describe(100 * part[column])["mean"] for size, part in rows.groupby("size")}
            axes.plot(list(found), list(found.values()), **look | {"linestyle": line})
    axes.set(xlabel="training images", ylabel="test accuracy (%)")
    style.log_axis(axes, "x")
    style.legend(figure, looks)
    scale, seeds = chosen["scale"].iloc[0], chosen.groupby(["width", "epoch"])["seed"].nunique()
    style.footnote(figure, f"Scale {scale}; FCN; {style.seeds(seeds)}. Dashed: without the network as prior.")
    return figure
