"""Thesis fig. A.10: errors at initialisation against the bound C log(n) / sqrt(n), for several input dimensions."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.pntk.figures import _widths

NAME = "thesis-A.10"
TABLES = ("pntk-summary", "pntk-exponents")
TITLE = "Errors at initialisation fall with width at the rate of the theorems, or faster"
PANEL = "thesis-A.10"
SHOWN = {
    "frobenius_per_pair": "error of a pair (theorem 3.3.1)",
    "lambda_max_per_point": "largest eigenvalue (3.3.4)",
    "gap_without_prior": "predictions (3.3.5)",
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    if _widths.start(tables, PANEL, "frobenius_per_pair").empty:
        return style.empty(f"No finished cells of {PANEL} at this scale.")
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.6), layout="constrained")
    for axes, (quantity, title) in zip(figure.subplots(1, len(SHOWN)), SHOWN.items(), strict=True):
        rows = _widths.start(tables, PANEL, quantity)
        inputs, widths = sorted(rows["inputs"].unique()), sorted(rows["width"].unique())
        for d, look in zip(inputs, style.ladder(map(str, inputs)).values(), strict=True):
            _widths.curve(axes, rows[rows["inputs"] == d], "width", look)
        top = rows[rows["width"] == widths[0]]["mean"].max()
        _widths.bound(axes, top, np.array(widths, dtype=float))
        fitted = [_widths.exponent(tables["pntk-exponents"], panel=PANEL, quantity=quantity, inputs=d) for d in inputs]
        text = "\n".join(f"d = {d:,}: n^{each}" for d, each in zip(inputs, fitted, strict=True))
        axes.text(0.03, 0.03, text, transform=axes.transAxes, size=style.SMALL - 1, va="bottom")
        ylabel = "relative error" if axes is figure.axes[0] else ""
        _widths.finish(axes, widths, "width n", ylabel, title, 0.08 * len(inputs) + 0.02)
    looks = style.ladder(f"d = {d:,}" for d in inputs)
    style.legend(figure, looks | {"C log(n) / sqrt(n)": {"color": "0.4", "linestyle": "--"}})
    _widths.footnote(
        figure, rows, "Exponents by least squares on logarithms, of errors below 0.5, with 95% t-intervals."
    )
    return figure
