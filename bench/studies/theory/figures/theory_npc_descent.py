"""The loss along gradient descent against the bound of NPC's Theorem 1, and how much faster it falls."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-npc-descent",)
TITLE = "Theorem 1 of NPC holds up to 1 / lambda_max, and says how fast the loss falls only in the end"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-npc-descent"]
    rows = rows[(rows["setting"] == "relu") & (rows["m"] == rows["m"].max())]
    if rows.empty:
        return style.empty("No finished cells of npc-descent at this scale.")
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    steps = sorted(rows["step"].unique())
    for step, look in style.ladder(steps).items():
        mine = rows[(rows["step"] == step) & (rows["seed"] == rows["seed"].min())].sort_values("t")
        label = f"eta = {step:g} / lambda_max"
        left.plot(mine["t"], mine["loss"], label=label, **look | {"marker": ""})
        if step <= 1:
            left.plot(mine["t"], mine["bound"], **_lines.THEORY | {"color": look["color"]})
            every = rows[rows["step"] == step]
            shared = every.groupby("t")["seed"].transform("nunique") == every["seed"].nunique()
            _lines.measured(right, every[shared], "t", "speed", label=label, **look | {"markersize": 2.5})
    left.plot([], [], label="at most, by Theorem 1", **_lines.THEORY)
    right.axhline(1, **_lines.THEORY, label="as slow as lambda_min")
    left.set_ylim(1e-12, max(10.0, 3 * rows["loss"].max()))
    _lines.finish(left, "step t", "loss / first loss", "the loss and its bound")
    _lines.finish(right, "step t", "decay / decay along lambda_min", "how tight")
    left.legend(handlelength=1.6, fontsize=style.SMALL, loc="lower left")
    right.legend(handlelength=1.6, fontsize=style.SMALL)
    about = f"ReLU net of {rows['m'].iloc[0]} units; left, one seed."
    _lines.footnote(figure, rows, about, "Beyond 2 / lambda_max the loss grows until the kernel has shrunk.")
    return figure
