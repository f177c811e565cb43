"""Deeper and convolutional nets on two classes of images against their linear model."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-early-time-images",)
TITLE = "On images, too, nets begin as linear models; what they learn beyond comes later"
CURVES = {  # column of the net, of the linear model, colour
    "training loss": ("net", "linear", "#0072B2"),
    "within the span of the inputs": ("within", "within_linear", "#009E73"),
    "test loss": ("net", "linear", "#D55E00"),
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-early-time-images"]
    if rows.empty:
        return style.empty("No finished cells of early-time-images at this scale.")
    rows = rows[rows["step"] > 0]
    settings = sorted(rows["setting"].unique(), reverse=True)
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.7), layout="constrained")
    panels = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    for setting, axes in zip(settings, panels, strict=True):
        for name, (ours, theirs, colour) in CURVES.items():
            mine = rows[(rows["setting"] == setting) & (rows["split"] == ("test" if name == "test loss" else "train"))]
            _lines.measured(axes, mine, "step", ours, color=colour)
            linear = mine.groupby("step")[theirs].mean()
            axes.plot(linear.index, linear, color=colour, linestyle="--")
        dataset, _, net = setting.partition("+net=")
        title = f"{style.DATASETS.get(dataset, dataset)}, {style.NETS[net]} of 4 hidden layers"
        _lines.finish(axes, "step", "loss" if axes is panels[0] else "", title, log="x")
        axes.set_ylim(0, None)
    looks = {name: {"color": colour} for name, (_, _, colour) in CURVES.items()}
    style.legend(figure, looks | {"linear model, dashed": {"color": "0.35", "linestyle": "--"}})
    _lines.footnote(figure, rows, "Two classes: cats and horses, or two digits. The linear model's kernel: P Theta P.")
    return figure
