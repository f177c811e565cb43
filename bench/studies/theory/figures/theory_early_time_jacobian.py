"""How far the first-layer Jacobian moves with the weights, divided by the stated bound, over dimensions."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-early-time-jacobian",)
TITLE = "The Jacobian moves with the weights less than its bound, the more so the larger the dimension"
NAMES = {"random": "random", "path": "gradient descent", "aligned": "all along one vector"}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-early-time-jacobian"]
    if rows.empty:
        return style.empty("No finished cells of early-time-jacobian at this scale.")
    settings = sorted(rows["setting"].unique())
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.4), layout="constrained")
    panels = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    looks = style.ladder(NAMES)
    for setting, axes in zip(settings, panels, strict=True):
        mine = rows[rows["setting"] == setting]
        for direction, look in looks.items():
            _lines.measured(axes, mine[mine["direction"] == direction], "d", "quotient", **look)
        smooth = mine[mine["proof"] > 0]
        if len(smooth):
            constants = (smooth["quotient"] / smooth["proof"]).groupby(smooth["d"]).mean()
            _lines.theory(axes, constants.index, constants, "")
        bound = "(7)" if smooth.empty else "(6)"
        _lines.finish(axes, "dimension d", "quotient" if axes is panels[0] else "", f"{setting}, bound {bound}")
    named = {NAMES[direction]: look for direction, look in looks.items()}
    style.legend(figure, named | {"constant of the proof": _lines.THEORY})
    _lines.footnote(figure, rows, "Over seeds and |W - W(0)| up to sqrt(d log d).")
    return figure
