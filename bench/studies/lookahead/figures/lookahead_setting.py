"""How the peak rate was chosen: random acquisition over rates, warm and cold starts, on seeds of their own."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.lookahead.figures import _curves, _rates

NAME = "lookahead-setting"
TABLES = ("lookahead-summary",)
TITLE = "The choice of the peak rate: random acquisition over rates and starts"
PANELS = ("setting-warm-lr-*", "setting-cold-lr-*")
STARTS = dict(zip(PANELS, ("warm start, as in the thesis", "cold start"), strict=True))
PREFIX = "random, "


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    summary = tables["lookahead-summary"]
    parts = [
        _curves.Part(title, {name.removeprefix(PREFIX): rows for name, rows in _rates.series(summary, panel).items()})
        for panel, title in STARTS.items()
    ]
    return _curves.compose(summary, PANELS, parts, _rates.looks({name for part in parts for name in part.series}))
