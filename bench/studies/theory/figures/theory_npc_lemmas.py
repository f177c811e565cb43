"""The remainders of a gradient step against its size, and the bound that the proof of NPC's Lemma 3 derives."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-npc-lemmas",)
TITLE = "NPC's Lemma 3 is true, both remainders are O(eta^2), but the bound in its proof is O(eta)"
LOOKS = {
    "xi_bound": ("bound on xi in the proof", {"color": "#D55E00", "marker": "o", "linestyle": "-"}),
    "xi": ("xi", {"color": "#0072B2", "marker": "s", "linestyle": "-"}),
    "eps": ("eps", {"color": "#009E73", "marker": "^", "linestyle": ":"}),
}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-npc-lemmas"]
    if rows.empty:
        return style.empty("No finished cells of npc-lemmas at this scale.")
    settings = sorted(rows["setting"].unique())
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.6), layout="constrained")
    panels = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    for axes, setting in zip(panels, settings, strict=True):
        mine = rows[rows["setting"] == setting]
        eta = mine["eta"].drop_duplicates().sort_values()
        for quantity, (label, look) in LOOKS.items():
            _lines.measured(axes, mine, "eta", quantity, label=label, **look)
        first = mine[mine["eta"] == eta.iloc[0]].mean(numeric_only=True)
        _lines.theory(axes, eta, first["xi"] * (eta / eta.iloc[0]) ** 2, "eta^2")
        axes.plot(eta, first["xi_bound"] * eta / eta.iloc[0], label="eta", **_lines.THEORY | {"linestyle": ":"})
        _lines.finish(axes, "eta lambda_max", "share of the loss" if axes is panels[0] else "", f"{setting} nets")
    panels[0].legend(handlelength=1.6, fontsize=style.SMALL)
    _lines.footnote(figure, rows, "Widths and nets together.")
    return figure
