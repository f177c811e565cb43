"""The smallest eigenvalue of NPC's Gram matrix against the number of points, and the last layer's share of it."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-npc-positivity",)
TITLE = "Distinct points do not make lambda_min positive: the last layer's kernel runs out of rank"
LOOKS = {
    ("all", "distinct"): ("whole kernel, distinct", {"color": "#0072B2", "marker": "s", "linestyle": "-"}),
    ("last", "distinct"): ("last layer, distinct", {"color": "#D55E00", "marker": "o", "linestyle": "-"}),
    ("last", "copies"): ("last layer, with a copy", {"color": "#888888", "marker": "x", "linestyle": ":"}),
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-npc-positivity"]
    if rows.empty:
        return style.empty("No finished cells of npc-positivity at this scale.")
    rows = rows.assign(size=rows["margin"].abs())
    settings = sorted(rows["setting"].unique())
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.6), layout="constrained")
    panels = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    for axes, setting in zip(panels, settings, strict=True):
        mine = rows[rows["setting"] == setting]
        for (kernel, kind), (label, look) in LOOKS.items():
            chosen = mine[(mine["kernel"] == kernel) & (mine["set"] == kind)]
            _lines.measured(axes, chosen, "points", "size", label=label, **look)
        axes.axhline(1, **_lines.THEORY, label="rounding")
        limit = mine[mine["kernel"] == "last"]["rank"].max()
        axes.axvline(limit, **_lines.THEORY | {"linestyle": ":"}, label="rank, last layer")
        ylabel = "|lambda_min| / rounding" if axes is panels[0] else ""
        _lines.finish(axes, "points N", ylabel, setting, log="y")
    panels[0].legend(handlelength=1.6, fontsize=style.SMALL, loc="center left", bbox_to_anchor=(0, 0.5))
    _lines.footnote(figure, rows, "NPC Proposition 1 says that all distinct sets lie above the dashed line.")
    return figure
