"""Thesis fig. A.2: LL4AL at several learning rates; squared loss and cross-entropy."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style as _style
from bench.studies.lookahead.figures import _curves, _rates

NAME = "thesis-A.2"
TABLES = ("lookahead-summary",)
TITLE = "LL4AL over learning rates; squared loss against cross-entropy"
PANELS = ("thesis-A.2a-random", "thesis-A.2a-lr-*", "thesis-A.2b-l2", "thesis-A.2b-ce")
LOSSES = {"thesis-A.2b-l2": "L2", "thesis-A.2b-ce": "cross-entropy"}


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    summary = tables["lookahead-summary"]
    random = summary[(summary["panel"] == PANELS[0]) & (summary["strategy"] == "random")]
    rates = _rates.series(summary, PANELS[1])
    losses, looks = {}, {}
    for panel, loss in LOSSES.items():
        rows = dict(list(summary[summary["panel"] == panel].groupby("strategy")))
        for strategy, style in _style.styles(rows).items():
            losses[f"{strategy}, {loss}"] = rows[strategy]
            looks[f"{strategy}, {loss}"] = style | (_rates.BROKEN if loss != "L2" else {})
    parts = [_part("(a)", ({"random": random} if len(random) else {}) | rates), _part("(b)", losses)]
    return _curves.compose(summary, PANELS, parts, _style.styles(["random"]) | _rates.looks(rates) | looks)


def _part(label: str, series: dict[str, pd.DataFrame]) -> _curves.Part:
    title = _style.setting_title(next(iter(series.values())).iloc[0]) if series else ""
    return _curves.Part(f"{label} {title}", series)
