"""How the peak rate was chosen: random acquisition over rates, warm and cold starts, on seeds of their own."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.lookahead.figures import _curves, _rates

NAME = "lookahead-setting"
TABLES = ("lookahead-summary",)
TITLE = "The choice of the peak rate: random acquisition over rates and starts"
PANELS = ("setting-warm-lr-*", "setting-cold-lr-*", "setting-cifar10-lr-*")
TITLES = dict(
    zip(PANELS, ("MNIST, warm start, as in the thesis", "MNIST, cold start", "CIFAR-10, warm start"), strict=True)
)
PREFIX = "random, "


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    summary = tables["lookahead-summary"]
    parts = [
        _curves.Part(
            title,
            {name.removeprefix(PREFIX): rows for name, rows in _rates.series(summary, panel).items()},
            compared="MNIST" in title,
        )
        for panel, title in TITLES.items()
    ]
    names = dict.fromkeys(name for part in parts for name in part.series)
    looks = style.ladder(sorted(names, key=lambda name: float(name.rpartition(" ")[2])))
    return _curves.compose(summary, PANELS, parts, looks)
