"""The thesis' claims beside what was measured, one row each, with a verdict by one rule.

bench/published/thesis-claims.csv states every claim as a quantity and the range in which it would hold:

    area, final   accuracy of a minus that of b, over the whole curve or after the last cycle, paired by seed
    cycle-3       accuracy of a after three queries; only comparable in the thesis' own setting
    time          query time of a over that of b

`b` = `best` is the panel's best other strategy by area, of those in `rivals`; a panel with an asterisk is each that
matches. The claim is `supported` if the 95% interval over seeds lies in the range, `not supported` if it lies outside
of it, `inconclusive` if it does both or there is one seed only, and `not measured` without finished runs of a and b.
An accuracy by itself, of a panel that departs from the thesis', is `not comparable`.
Where the thesis says "the same", "comparable" or "about", the range is this suite's: within a point of accuracy, within
a factor of two in time.

`diverged` counts the runs of a and b that diverged (see `bench.tables`), `extrapolated` says that a time is one
of a sample, multiplied, and `deviations` how the panel departs from the thesis'.
"""

from collections.abc import Mapping
from fnmatch import fnmatch

import pandas as pd

from bench import stats, times
from bench.tables import diverged, of_setting, runs

CLAIMS = [
    *("scale", "data", "claim", "figure", "statement", "published", "panel", "panel_b", "a", "b", "rivals", "quantity"),
    *("holds_above", "holds_below", "n", "measured", "measured_low", "measured_high", "verdict", "diverged"),
    *("extrapolated", "deviations", "source"),
]


def claims(
    curves: pd.DataFrame,
    queries: pd.DataFrame,
    panels: dict,
    published: pd.DataFrame,
    deviations: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """One row per claim and panel; `queries` as of `bench.times`, `deviations` per panel."""
    finished, texts = runs(curves), deviations or {}
    rows = []
    for claim in published.to_dict("records"):
        for panel in [name for name in panels if fnmatch(name, claim["panel"])] or [claim["panel"]]:
            row = claim | {"panel": panel, "panel_b": claim["panel_b"] or panel, "scale": "", "data": "", "n": 0}
            row |= {"rivals": "", "diverged": 0, "extrapolated": False}
            departures = dict.fromkeys(texts.get(row[key], "") for key in ("panel", "panel_b"))
            row["deviations"] = "; ".join(filter(None, departures))
            if row["panel"] in panels and row["panel_b"] in panels:
                row |= _measure(row, curves, finished, queries, panels)
            rows.append(row | {"verdict": verdict(row)})
    return pd.DataFrame(rows, columns=CLAIMS)


def verdict(row: dict) -> str:
    if not row.get("n"):
        return "not measured"
    if row["quantity"].startswith("cycle") and row["deviations"]:
        return "not comparable"
    low, high = row["measured_low"], row["measured_high"]
    least = -float("inf") if pd.isna(row["holds_above"]) else row["holds_above"]
    most = float("inf") if pd.isna(row["holds_below"]) else row["holds_below"]
    if low > least and high < most:
        return "supported"
    return "not supported" if high <= least or low >= most else "inconclusive"


def _measure(row: dict, curves: pd.DataFrame, finished: pd.DataFrame, queries: pd.DataFrame, panels: dict) -> dict:
    here, there = panels[row["panel"]], panels[row["panel_b"]]
    quantity, _, cycle = row["quantity"].partition("-")
    if quantity == "time":
        return _time(row, of_setting(queries, here))
    if quantity == "cycle":
        rows = of_setting(curves, here)
        mine = rows[(rows["strategy"] == row["a"]) & (rows["cycle"] == int(cycle))].set_index("seed")["test_accuracy"]
        return _described(mine, rows) | {"diverged": diverged(rows, row["a"])}
    column = {"area": "area", "final": "test_accuracy"}[quantity]
    ours, theirs = of_setting(finished, here), of_setting(finished, there)
    b, rivals = row["b"], theirs[theirs["strategy"].isin(set(there["strategies"]) - {row["a"]})]
    best = {}
    if b == "best" and len(rivals):
        areas = rivals.groupby("strategy")["area"].mean()
        b = areas.idxmax()
        best = {"b": b, "rivals": " ".join(areas.index)}
    mine = ours[ours["strategy"] == row["a"]].set_index("seed")[column]
    other = theirs[theirs["strategy"] == b].set_index("seed")[column]
    again = diverged(of_setting(curves, here), row["a"]) + diverged(of_setting(curves, there), b)
    return _described((mine - other).dropna(), ours) | best | {"diverged": again}


def _time(row: dict, queries: pd.DataFrame) -> dict:
    """Of the strategies that stand for a (naive, or a timed sample of it), the first that has run."""
    a = next((name for name in row["a"].split() if name in set(queries["strategy"])), row["a"].split()[0])
    n, mean, low, high = times.ratio(queries, a, row["b"])
    part = queries[queries["strategy"].isin([a, row["b"]])]
    found = {"a": a, "n": n, "measured": mean, "measured_low": low, "measured_high": high} | _origin(queries)
    return found | {"extrapolated": bool(part["extrapolated"].any())}


def _described(values: pd.Series, rows: pd.DataFrame) -> dict:
    found = stats.describe(values.round(12))
    measured = {"measured": found["mean"], "measured_low": found["low"], "measured_high": found["high"]}
    return {"n": len(values)} | measured | _origin(rows)


def _origin(rows: pd.DataFrame) -> dict:
    return {key: rows[key].iloc[0] for key in ("scale", "data")} if len(rows) else {}
