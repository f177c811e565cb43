"""Errors of the closed forms of kernel gradient flow, one column per statement."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-gradient-flow",)
TITLE = "Gradient flow: every closed form is exact, but exp(-t K) is not that of the mean loss"
CHECKS = {
    "mean": "mean loss,\nexp(-tK/n)",
    "printed": "mean loss,\nexp(-tK)",
    "sum": "sum,\nexp(-tK)",
    "limit": "t = inf,\nregression",
    "descent": "descent,\n(I-eta K/n)^t",
    "step": "largest step\n2n/lambda",
}
LOOKS = {
    "wishart": {"color": "#0072B2", "marker": "o"},
    "arccos": {"color": "#D55E00", "marker": "s"},
    "infinite": {"color": "#009E73", "marker": "^"},
    "empirical": {"color": "#CC79A7", "marker": "D"},
}
LEAST = 1e-17  # where an error of 0 is drawn
ROUNDING = 1e-10


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-gradient-flow"]
    if rows.empty:
        return style.empty("No finished cells of gradient-flow at this scale.")
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.4), layout="constrained")
    axes = figure.subplots()
    worst = rows.groupby(["setting", "check"])["error"].max().clip(lower=LEAST)
    for place, (setting, look) in enumerate(LOOKS.items()):
        if setting in worst.index:
            mine = worst[setting].reindex(list(CHECKS))
            offset = 0.12 * (place - 1.5)
            axes.plot([i + offset for i in range(len(CHECKS))], mine, linestyle="", **look, label=f"{setting} kernel")
    axes.axhline(ROUNDING, **_lines.THEORY, label="rounding allowed")
    axes.set_ylim(LEAST / 3, 30)
    _lines.finish(axes, "", "largest relative error", log="y")
    axes.set_xticks(range(len(CHECKS)), list(CHECKS.values()))
    axes.legend(handlelength=1.6, fontsize=style.SMALL, loc="center left", bbox_to_anchor=(1, 0.5))
    seeds = style.seeds(rows.groupby("setting")["seed"].nunique())
    style.footnote(
        figure,
        f"Scale {rows['scale'].iloc[0]}; {seeds}, {len(rows):,} trials.",
        "The step is found by bisection, to what its number of steps can tell.",
    )
    return figure
