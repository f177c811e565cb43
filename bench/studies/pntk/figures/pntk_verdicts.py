"""Every claim of the chapter and every control, by architecture: what was measured, and the verdict as a colour."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from bench.report import style
from bench.report.claims import overall
from bench.report.forest import COLOURS
from bench.studies.pntk.figures._epochs import NETS

NAME = "pntk-verdicts"
TABLES = ("pntk-claims",)
TITLE = "Every claim of chapter 3 and every control, by architecture, with its verdict"
OTHER = "other"  # the column of claims that are of no single architecture
STATEMENT, COLUMN, ROW = 3.45, 0.64, 0.125  # inches: of statements, of a verdict, of a line of text


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    claims = tables["pntk-claims"]
    claims = claims[claims["n"] > 0].assign(net=lambda rows: [_net(row) for row in rows.itertuples()])
    if claims.empty:
        return style.empty("No finished cells of any claim at this scale.")
    columns = [net for net in (*NETS, OTHER) if net in set(claims["net"])]
    texts = {
        claim: style.wrap(f"{row['where']}: {row['statement']}{'' if row['published'] else ' *'}", STATEMENT - 0.1, 7)
        for claim, row in claims.drop_duplicates("claim").set_index("claim").iterrows()
    }
    heights = [ROW * (text.count("\n") + 1) + 0.06 for text in texts.values()]
    width, height = STATEMENT + COLUMN * len(columns), sum(heights) + 0.2
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    for place, net in enumerate(columns):
        centre = STATEMENT + (place + 0.5) * COLUMN
        axes.text(centre, 0.1, NETS.get(net, net), ha="center", va="center", size=style.SMALL, weight="bold")
    top = 0.2
    for (claim, text), tall in zip(texts.items(), heights, strict=True):
        axes.text(0, top + tall / 2, text, va="center", size=style.SMALL)
        for place, net in enumerate(columns):
            rows = claims[(claims["claim"] == claim) & (claims["net"] == net)]
            if len(rows):
                _tile(axes, STATEMENT + place * COLUMN, top, tall, rows)
        top += tall
    found = [word for word in COLOURS if word in set(claims["verdict"])]
    figure.legend(
        handles=[Patch(facecolor=COLOURS[word], edgecolor="0.6", linewidth=0.5, label=word) for word in found],
        loc="outside upper center",
        ncols=len(found),
    )
    style.footnote(
        figure,
        f"Scale {claims['scale'].iloc[0]}; {style.seeds(claims['n'])}. Means (x: ratios, pt: points of accuracy), or",
        "in how many of several settings the claim holds. *: a control of this suite. Intervals: docs/results-pntk.md.",
    )
    return figure


def _net(row) -> str:
    """The architecture that a setting is of; rates and whole datasets are of the net they name."""
    return next((net for net in NETS if f"-{net}" in row.setting or f", {net}" in row.setting), OTHER)


def _tile(axes: Axes, left: float, top: float, tall: float, rows: pd.DataFrame) -> None:
    verdict = overall(rows).iloc[0]
    axes.add_patch(Rectangle((left, top), COLUMN, tall, facecolor=COLOURS[verdict], edgecolor="white", linewidth=1.2))
    text = f"{(rows['verdict'] == 'supported').sum()} of {len(rows)}" if len(rows) > 1 else _number(rows.iloc[0])
    axes.text(left + COLUMN / 2, top + tall / 2, text, ha="center", va="center", size=style.SMALL)


def _number(row: pd.Series) -> str:
    value = row["measured"] * (100 if row["unit"] == "points" else 1)
    unit = {"times": "x", "points": " pt"}.get(row["unit"], "")
    return (f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}") + unit
