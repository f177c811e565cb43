"""Two-layer nets trained by gradient descent, their linearisation, their kernel, and the limits, against width."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-gradient-flow-width",)
TITLE = "Trained nets approach their linearisation at least as fast as width^(-1/2), smooth ones like 1/width"
LOOKS = {
    "erf": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "erf-first": {"color": "#56B4E9", "marker": "s", "linestyle": ":"},
    "relu": {"color": "#D55E00", "marker": "^", "linestyle": "-"},
    "relu-first": {"color": "#E69F00", "marker": "v", "linestyle": ":"},
}
NAMES = {
    "erf": "erf, both layers",
    "erf-first": "erf, first layer",
    "relu": "ReLU, both layers",
    "relu-first": "ReLU, first layer",
}
DOTTED = _lines.THEORY | {"linestyle": (0, (1, 2))}
PANELS = {
    "distance": "sup |f_t - f_t^lin|",
    "movement": "sup |Theta_t - Theta_0|",
    "infinite": "|f_end - infinite-kernel limit|",
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-gradient-flow-width"]
    if rows.empty:
        return style.empty("No finished cells of gradient-flow-width at this scale.")
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.3), layout="constrained")
    widths = np.array(sorted(rows["m"].unique()))
    for axes, (quantity, title) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        for setting, look in LOOKS.items():
            mine = rows[rows["setting"] == setting]
            found = np.exp(np.log(mine[quantity]).groupby(mine["m"]).mean())  # as the rates are fitted
            axes.plot(found.index, found, **look)
        top = rows[rows["m"] == widths[0]][quantity].max()
        _lines.theory(axes, widths, top * (widths / widths[0]) ** -0.5, "")
        if quantity != "infinite":  # whose distance is that of a kernel from its expectation
            axes.plot(widths, 0.5 * top * (widths / widths[0]) ** -1.0, **DOTTED)
        _lines.finish(axes, "neurons m", "", title)
    known = {NAMES[name]: look for name, look in LOOKS.items() if name in set(rows["setting"])}
    style.legend(figure, known | {"~ m^(-1/2)": _lines.THEORY, "~ 1/m": DOTTED})
    seeds = rows.groupby("setting")["seed"].nunique()
    style.footnote(figure, f"Scale {rows['scale'].iloc[0]}; {style.seeds(seeds)}, geometric means.")
    return figure
