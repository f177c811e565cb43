"""Not in the thesis: which layer must be wide, and what the number of outputs does to the error of the pNTK."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.pntk.figures import _widths

NAME = "pntk-layers"
TABLES = ("pntk-summary", "pntk-exponents")
TITLE = "The last hidden layer must be wide, the first need not; the error grows with the number of outputs"
NETS = {"fcn": "all hidden layers", "fcn+widen=last": "the last alone", "fcn+widen=first": "the first alone"}
LOOKS = {
    "all hidden layers": {"color": "#333333", "marker": "o"},
    "the last alone": {"color": "#D55E00", "marker": "s"},
    "the first alone": {"color": "#0072B2", "marker": "^"},
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    layers = _widths.start(tables, "layers", "frobenius_per_pair")
    outputs = _widths.start(tables, "outputs", "frobenius_per_pair")
    if layers.empty and outputs.empty:
        return style.empty("No finished cells of the panels layers and outputs at this scale.")
    figure = Figure(figsize=(style.TEXT_WIDTH * 0.85, 2.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    fitted = tables["pntk-exponents"]
    for net, name in NETS.items():
        mine = layers[layers["net"] == net]
        if len(mine):
            slope = _widths.exponent(fitted, panel="layers", quantity="frobenius_per_pair", net=net)
            _widths.curve(left, mine, "width", LOOKS[name] | {"label": f"{name}: n^{slope}"})
    if len(layers):
        widths = sorted(layers["width"].unique())
        _widths.finish(left, widths, "width n", "relative error of a pair", "what is widened", 0.36)
    for (width, rows), look in zip(outputs.groupby("width"), style.ladder("ab").values(), strict=False):
        key = {"panel": "outputs", "quantity": "frobenius_per_pair", "along": "outputs", "fixed": width}
        label = f"width {width:,}: O^{_widths.exponent(fitted, **key)}"
        _widths.curve(right, rows, "outputs", look | {"label": label})
    if len(outputs):
        _widths.finish(right, sorted(outputs["outputs"].unique()), "outputs O", "", "at fixed width", 0.26)
    for axes in (left, right):
        if axes.lines:
            axes.legend(loc="lower left" if axes is left else "lower right", handlelength=1.6, fontsize=style.SMALL)
    _widths.footnote(figure, pd.concat([layers, outputs]), "Other layers have 64 units.")
    return figure
