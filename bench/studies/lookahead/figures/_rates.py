"""Runs at several learning rates: one colour per rate, random dashed, variants dotted (thesis figs A.2a and A.3)."""

import pandas as pd

from bench.report import style as _style
from bench.studies.lookahead.figures import _curves

BROKEN = {"linestyle": "--", "markerfacecolor": "white"}
DOTTED = {"linestyle": ":", "markerfacecolor": "white"}


def series(summary: pd.DataFrame, pattern: str) -> dict[str, pd.DataFrame]:
    """`ll4al, rate 0.3` -> rows, of the panels `...-lr-<rate>`, largest rate first."""
    shown = _curves.of_panels(summary, (pattern,))
    rate = shown["panel"].str.split("-lr-").str[-1]
    found = {(float(key), name): rows for (key, name), rows in shown.groupby([rate, "strategy"])}
    return {
        f"{name}, rate {key:g}": found[key, name] for key, name in sorted(found, key=lambda pair: (-pair[0], pair[1]))
    }


def looks(names) -> dict[str, dict]:
    """A style per name of `series`."""
    rates = sorted({name.rpartition(" ")[2] for name in names}, key=float)
    colours = _style.ladder(rates)
    broken = {name: BROKEN if name.startswith("random") else DOTTED if "+" in name else {} for name in names}
    return {name: colours[name.rpartition(" ")[2]] | broken[name] for name in names}
