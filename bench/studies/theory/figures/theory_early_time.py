"""Losses of a two-layer net and of its linear model over time, for each way of training."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

TABLES = ("theory-early-time",)
TITLE = "A two-layer net follows a linear model until that has converged; its second layer alone does not"
LOOKS = {"train": {"color": "#0072B2"}, "test": {"color": "#D55E00"}}
HORIZON = {"color": "0.6", "linewidth": 1, "linestyle": ":"}
NAMES = {"first": "first layer trains", "second": "second layer trains", "both": "both layers train"}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    rows = tables["theory-early-time"]
    if rows.empty:
        return style.empty("No finished cells of early-time at this scale.")
    settings = [setting for setting in NAMES if setting in set(rows["setting"])]
    figure = Figure(figsize=(style.TEXT_WIDTH, 2.5), layout="constrained")
    panels = figure.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    for setting, axes in zip(settings, panels, strict=True):
        mine = rows[(rows["setting"] == setting) & (rows["time"] > 0)]
        for _, one in mine.groupby("seed"):
            for split, look in LOOKS.items():
                axes.plot("time", "net", data=one[one["split"] == split], **look)
                axes.plot("time", "linear", data=one[one["split"] == split], zorder=3, **_lines.THEORY)
        axes.axvline(mine["horizon"].iloc[0], **HORIZON)
        _lines.finish(axes, "eta t / d", "loss" if axes is panels[0] else "", NAMES[setting], log="x")
        axes.set_ylim(0, None)
    named = {f"net, {split}": look for split, look in LOOKS.items()} | {"linear model": _lines.THEORY}
    style.legend(figure, named | {"T = d log d / eta": HORIZON})
    seeds = rows.groupby("setting")["seed"].nunique()
    facts = f"Scale {rows['scale'].iloc[0]}; {style.seeds(seeds)}, one line each; d = {rows['d'].iloc[0]}."
    style.footnote(figure, facts, parted(rows, settings))
    return figure


def parted(rows: pd.DataFrame, settings: list[str]) -> str:
    """When the training losses first differ by a tenth, over seeds."""
    said = []
    for setting in settings:
        mine = rows[(rows["setting"] == setting) & (rows["split"] == "train")].groupby("seed")["parted"].first()
        said.append(f"{mine.mean():.3g} ({setting})" if mine.notna().all() else f"never ({setting})")
    horizon = f"T is log d = {rows['horizon'].iloc[0]:.2g}"
    return f"Training losses first differ by a tenth at eta t / d = {', '.join(said)}; {horizon}."
