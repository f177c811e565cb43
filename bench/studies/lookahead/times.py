"""Query times: tables of how long the strategies take to choose, as in thesis figs 2.1a and 3.15.

Seconds are wall-clock, per query, from the account beside each record. A strategy that scored only a sample of its
candidates notes so, and its seconds are multiplied by candidates / scored: those rows say `extrapolated`. Times of
different machines or thread counts are never put together, and runs that diverged and began anew do not count. Clocks
are kept to the millisecond: what takes less counts as one.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from bench.report import stats
from bench.report.words import phrase
from bench.studies.lookahead.curves import SETTING, by_panel

WHERE = ["device_name", "threads"]
KEYS = ["scale", "data", *SETTING, "strategy", *WHERE]
QUERIES = [*KEYS, "seed", "cycle", "labelled", "extrapolated", "seconds"]
PER_CYCLE = ["panel", *KEYS, "extrapolated", "cycle", "labelled", "n", "seconds_mean", "seconds_low", "seconds_high"]
TIMES = [
    *(*KEYS, "extrapolated", "n", "queries", "seconds_mean", "seconds_low", "seconds_high"),
    *("over_ntk", "over_ntk_low", "over_ntk_high", "published"),
]


def queries(records: Iterable[dict], metas: Iterable[dict]) -> pd.DataFrame:
    """One row per query, from records and their metas in the same order."""
    rows = []
    for record, meta in zip(records, metas, strict=True):
        if record["diverged"] is not None:
            continue
        for cycle, seconds in zip(record["cycles"], meta["seconds_per_step"].get("query", []), strict=False):
            notes = cycle["notes"]
            whole = notes["candidates"] / notes["scored"] if "scored" in notes else 1
            about = {"scale": record["scale"], "data": phrase(record["data"]), "device_name": meta["device"]["name"]}
            about |= {"threads": meta["threads"], "cycle": cycle["cycle"], "labelled": cycle["labelled"]}
            rows.append(
                {**record["cell"], **about, "extrapolated": "scored" in notes, "seconds": max(seconds, 0.001) * whole}
            )
    return pd.DataFrame(rows, columns=QUERIES)


def per_cycle(queries: pd.DataFrame, panels: dict) -> pd.DataFrame:
    """Seconds per panel, strategy and cycle, with the 95% interval of the mean over seeds."""
    keys = [*KEYS, "extrapolated", "cycle", "labelled"]
    parts = [_described(shown, keys).assign(panel=name) for name, shown in by_panel(queries, panels)]
    return pd.concat(parts)[PER_CYCLE] if parts else pd.DataFrame(columns=PER_CYCLE)


def times(queries: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Seconds per setting and strategy, and how many times the `ntk` of the same setting, seed by seed.

    `published` repeats what the thesis claims of that ratio, the same way round.
    """
    runs = queries.groupby([*KEYS, "extrapolated", "seed"], as_index=False)
    runs = runs.agg(queries=("cycle", "count"), seconds=("seconds", "mean"))
    table = _described(runs, [*KEYS, "extrapolated"], queries=("queries", "sum"))
    said = claims[(claims["quantity"] == "time") & (claims["b"] == "ntk")]
    for place, row in table.iterrows():
        here = (queries[[*SETTING, *WHERE]] == row[[*SETTING, *WHERE]]).all(axis=1)
        _, *found = ratio(queries[here], row["strategy"], "ntk")
        table.loc[place, ["over_ntk", "over_ntk_low", "over_ntk_high"]] = found
        matching = [claim.published for claim in said.itertuples() if row["strategy"] in claim.a.split()]
        table.loc[place, "published"] = "; ".join(matching)
    return table.reindex(columns=TIMES)


def ratio(queries: pd.DataFrame, a: str, b: str) -> tuple[int, float, float, float]:
    """n, and the ratio of the time of all queries of a to that of b with its 95% interval over seeds.

    Seeds are paired; the mean is geometric and the interval Student's on logarithms, so that a/b and b/a agree.
    """
    logs = log_ratios(queries, a, b)
    found = stats.describe(logs)
    return len(logs), *(float(np.exp(found[key])) for key in ("mean", "low", "high"))


def log_ratios(queries: pd.DataFrame, a: str, b: str) -> pd.Series:
    """Logarithm of the time of all queries of a over that of b, seed by seed, on one machine."""
    keys = [*SETTING, *WHERE, "seed"]
    totals = [queries[queries["strategy"] == name].groupby(keys)["seconds"].mean() for name in (a, b)]
    return np.log(totals[0] / totals[1]).dropna()


def _described(frame: pd.DataFrame, keys: list[str], **more: tuple[str, str]) -> pd.DataFrame:
    rows = []
    for key, group in frame.groupby(keys):
        found = {f"seconds_{name}": value for name, value in stats.describe(group["seconds"]).items()}
        extra = {name: group[column].agg(how) for name, (column, how) in more.items()}
        rows.append(dict(zip(keys, key, strict=True)) | {"n": len(group)} | extra | found)
    return pd.DataFrame(rows, columns=[*keys, "n", *more, "seconds_mean", "seconds_low", "seconds_high"])
