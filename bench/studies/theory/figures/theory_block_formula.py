"""How far the block formula (2.12) is from solving anew, with the inverse and as printed, over condition numbers."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-block-formula",)
TITLE = "The block formula is exact to rounding with the inverse that the thesis left out, and wrong without it"
LOOKS = {
    "printed_error": ("(2.12) as printed", {"color": "#D55E00", "marker": "o", "linestyle": "-"}),
    "error": ("(2.12) with the inverse", {"color": "#0072B2", "marker": "s", "linestyle": "-"}),
    "posterior_error": ("posterior covariance", {"color": "#009E73", "marker": "^", "linestyle": ":"}),
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-block-formula"]
    if rows.empty:
        return style.empty("No finished cells of block-formula at this scale.")
    settings = sorted(rows["setting"].unique())
    figure = Figure(figsize=(style.TEXT_WIDTH if len(settings) > 1 else style.SINGLE_WIDTH, 2.6), layout="constrained")
    panels = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    for axes, setting in zip(panels, settings, strict=True):
        mine = rows[rows["setting"] == setting]
        for quantity, (label, look) in LOOKS.items():
            _lines.measured(axes, mine, "condition", quantity, label=label, **look)
        condition = np.sort(mine["condition"].unique())
        _lines.theory(axes, condition, condition * np.finfo(float).eps, "condition number times rounding")
        ylabel = "largest error / largest change" if axes is panels[0] else ""
        _lines.finish(axes, "condition number of the kernel", ylabel, f"{setting} kernel")
    named = {label: look for label, look in LOOKS.values()}
    style.legend(figure, named | {"condition number times rounding": _lines.THEORY})
    _lines.footnote(figure, rows, "Errors against LU of the system with one more label.")
    return figure
