"""The nets of chapter 2 against their linearisation and against their first kernel, over widths."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-width-limits",)
TITLE = "Nets of chapter 2 and (2.9): how far training takes them from their linearisation, over widths"
NETS = {"fcn": "FCN", "wrn": "1-layer WRN", "resnet18": "ResNet18"}
STAGES = {
    "start": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "retrain": {"color": "#D55E00", "marker": "s", "linestyle": "-"},
}
SAID = {"start": "from initialisation", "retrain": "from a trained net, with new labels"}
ROWS = {"distance": "sup |f_t - f_t^lin|", "relative": "sup |Theta_t - Theta_0|\n/ |Theta_0|"}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-width-limits"]
    if rows.empty:
        return style.empty("No finished cells of width-limits at this scale.")
    nets = [net for net in NETS if net in set(rows["setting"])]
    figure = Figure(figsize=(style.TEXT_WIDTH, 3.6), layout="constrained")
    panels = figure.subplots(2, len(nets), sharex="col", sharey="row", squeeze=False)
    for (quantity, name), row in zip(ROWS.items(), panels, strict=True):
        for net, axes in zip(nets, row, strict=True):
            mine = rows[rows["setting"] == net]
            for stage, look in STAGES.items():
                _lines.measured(axes, mine[mine["stage"] == stage], "width", quantity, **look)
            widths = np.array(sorted(mine["width"].unique()))
            top = mine[mine["width"] == widths[0]][quantity].max()
            _lines.theory(axes, widths, top * (widths / widths[0]) ** -0.5, "")
            upper = quantity == "distance"
            _lines.finish(axes, "" if upper else "width", name if net == nets[0] else "", NETS[net] if upper else "")
            shown = widths[:: 1 if len(widths) < 5 else 2]
            axes.set_xticks(shown, [str(width) for width in shown])
    style.legend(figure, {SAID[stage]: look for stage, look in STAGES.items()} | {"~ width^(-1/2)": _lines.THEORY})
    _lines.footnote(figure, rows, "Width: hidden units, channels of the last layer, widening factor.")
    return figure
