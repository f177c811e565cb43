"""The counted work of looking ahead against the number of candidates: the blocks that the thesis counts, and all."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-block-cost",)
TITLE = "The kernel of the candidates with each other, which the thesis' count leaves out, is most of the work"
TITLES = {"explicit": "explicit Jacobians", "fcn": "the suite's engine, FCN", "wrn": "the suite's engine, WRN"}
LOOKS = {
    "total": ("all three blocks", {"color": "#D55E00", "marker": "o", "linestyle": "-"}),
    "stated": ("the blocks that the thesis counts", {"color": "#0072B2", "marker": "s", "linestyle": "-"}),
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-block-cost"]
    if rows.empty:
        return style.empty("No finished cells of block-cost at this scale.")
    settings = [setting for setting in TITLES if setting in set(rows["setting"])]
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.5), layout="constrained")
    panels = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    for axes, setting in zip(panels, settings, strict=True):
        mine = rows[rows["setting"] == setting].drop_duplicates("U").sort_values("U")
        for quantity, (label, look) in LOOKS.items():
            axes.plot(mine["U"], mine[quantity], label=label, **look)
        last = mine.iloc[-1]
        _lines.theory(axes, mine["U"], last["total"] * (mine["U"] / last["U"]) ** 2, "U^2")
        axes.plot(mine["U"], last["stated"] * mine["U"] / last["U"], label="U", **_lines.THEORY | {"linestyle": ":"})
        ylabel = "operations" if axes is panels[0] else ""
        _lines.finish(axes, "candidates U", ylabel, TITLES[setting])
    panels[0].legend(handlelength=1.6, fontsize=style.SMALL)
    labelled = "/".join(str(n) for n in sorted(rows["L"].unique()))
    style.footnote(figure, f"Scale {rows['scale'].iloc[0]}; {labelled} labelled points; counts, equal for every seed.")
    return figure
