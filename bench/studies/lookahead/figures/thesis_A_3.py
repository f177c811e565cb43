"""Thesis fig. A.3: LL4AL against random at the same learning rate, for several rates."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import style as _style
from bench.studies.lookahead.figures import _curves, _rates

NAME = "thesis-A.3"
TABLES = ("lookahead-summary",)
TITLE = "LL4AL against random over learning rates"
PANELS = ("thesis-A.3a-lr-*", "thesis-A.3b-lr-*", "thesis-A.3c-lr-*", "thesis-A.3d-lr-*")


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    summary = tables["lookahead-summary"]
    letters: dict[tuple, list[str]] = {}  # panels of one setting, as small scales have them, are one
    for panel in PANELS:
        shown = _curves.of_panels(summary, (panel,))
        if len(shown):
            letters.setdefault(tuple(sorted(set(map(tuple, shown[_curves.SETTING].to_numpy())))), []).append(panel[10])
    parts = []
    for together in letters.values():
        series = _rates.series(summary, f"thesis-A.3{together[0]}-lr-*")
        title = _style.setting_title(next(iter(series.values())).iloc[0])
        parts.append(_curves.Part(f"({' = '.join(together)}) {title}", series))
    names = dict.fromkeys(name for part in parts for name in part.series)
    return _curves.compose(summary, PANELS, parts, _rates.looks(names))
