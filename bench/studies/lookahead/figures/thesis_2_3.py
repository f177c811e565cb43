"""Thesis fig. 2.3: sequential against batch querying, the gain over random at several widths, three objectives."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style as _style
from bench.studies.lookahead.figures import _curves

NAME = "thesis-2.3"
TABLES = ("lookahead-summary",)
TITLE = "Variants of the NTK look-ahead: sequential querying, widths, MLMOC, EMOC and EER"
PANELS = ("thesis-2.3-left", "thesis-2.3-width-*", "thesis-2.3-right")


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    summary = tables["lookahead-summary"]
    left, middle, right = (_curves.of_panels(summary, (panel,)) for panel in PANELS)
    gains = middle[middle["strategy"] == "ntk"].sort_values("width")
    widths = {f"ntk, width {width}": rows for width, rows in gains.groupby("width")}
    parts = [
        _curves.Part(_title("left", left), dict(list(left.groupby("strategy"))), difference=True),
        _curves.Part("(middle) gain over random, by width", widths, difference=True),
        _curves.Part(_title("right", right), dict(list(right.groupby("strategy"))), difference=True),
    ]
    chosen = _style.styles([*left["strategy"], *right["strategy"]]) | _style.ladder(widths)
    return _curves.compose(summary, PANELS, parts, chosen)


def _title(place: str, rows: pd.DataFrame) -> str:
    return f"({place}) {_style.setting_title(rows.iloc[0])}" if len(rows) else ""
