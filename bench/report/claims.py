"""Published statements beside what was measured, with a verdict by one rule, for every study.

A study's `claims.csv` states each claim as a quantity and the range in which it would hold. Its columns:

    claim                       an id that stays
    where, statement, source    the figure or theorem, the statement in plain words, and where it is printed
    published                   the published value or words
    quantity                    what is measured; the study's `claims.py` says what it calls so
    holds_above, holds_below    the range, open at both ends; empty: no bound

and whatever else the study needs to measure it. `measure(claim, frames, config)` of its `claims.py` gives a `Measured`
for every setting in which the claim can be put to the test. Verdicts:

    supported        the 95% interval over seeds lies in the range
    not supported    it lies outside
    inconclusive     part of it lies inside and part outside, or there is only one seed
    not comparable   it was measured in a setting of which the statement does not speak, such as stand-in data
    not measured     no finished runs

`seeds_needed` is how many seeds would bring the interval clear of the range's bound at the spread seen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats as distributions

from bench.core import csv, study
from bench.report import stats

VERDICTS = ("supported", "not supported", "inconclusive", "not comparable", "not measured")
COLUMNS = [
    *("study", "scale", "claim", "where", "statement", "published", "setting", "arms", "quantity", "unit"),
    *("holds_above", "holds_below", "n", "measured", "low", "high", "verdict", "seeds_needed", "data", "departures"),
    *("note", "source"),
]
DEMO = "demo"  # in place of a verdict, at a scale that is a demonstration
DECIDABLE = VERDICTS[:3]  # by more seeds
MOST = 100  # seeds, beyond which "more than" is said


@dataclass
class Measured:
    """What one setting says of a claim."""

    values: Sequence[float]  # one per seed; logarithms where `unit` is "times"
    setting: str = ""  # the panel or experiment
    arms: str = ""  # what was compared, in words
    unit: str = "points"  # points (of accuracy, as fractions), %, times (a ratio), or whatever the quantity has
    comparable: bool = True
    exact: bool = False  # an identity: every value must be in the range, its ends included, and no interval is needed
    data: str = ""
    departures: str = ""
    note: str = ""


def ledger(name: str, frames: dict[str, pd.DataFrame], config: dict) -> pd.DataFrame:
    """A study's claims, one row per claim and setting."""
    claims = csv.read(study.folder(name) / "claims.csv")
    return judged(name, claims, study.part(name, "claims").measure, frames, config)


def judged(name: str, claims: pd.DataFrame, measure: Callable, frames: dict, config: dict) -> pd.DataFrame:
    rows = []
    for claim in claims.to_dict("records"):
        for found in measure(claim, frames, config) or [Measured([])]:
            about = {"study": name, "scale": config["scale"]} | {key: claim[key] for key in COLUMNS if key in claim}
            about |= {key: getattr(found, key) for key in COLUMNS if hasattr(found, key)}
            judgement = verdict(found, claim["holds_above"], claim["holds_below"])
            if config.get("demonstration") and judgement["n"]:
                judgement |= {"verdict": DEMO, "seeds_needed": ""}
            rows.append(about | judgement | ({} if judgement["n"] else {"unit": ""}))
    return pd.DataFrame(rows, columns=COLUMNS)


def verdict(found: Measured, above: float, below: float) -> dict[str, object]:
    """n, mean and interval, verdict and how many seeds it needs; of an identity or a bound, the worst value and all."""
    values = np.round(np.asarray(found.values, dtype=float), 12)
    values = values[~np.isnan(values)]
    described, back = stats.describe(values), np.exp if found.unit == "times" else float
    mean, low, high = (float(back(described[key])) for key in ("mean", "low", "high"))
    least, most = (-np.inf if pd.isna(above) else above), (np.inf if pd.isna(below) else below)
    if not len(values):
        word = "not measured"
    elif not found.comparable:
        word = "not comparable"
    elif found.exact:
        word = "supported" if least <= values.min() and values.max() <= most else "not supported"
        mean, low, high = (values.max() if np.isfinite(most) else values.min()), values.min(), values.max()
    elif low > least and high < most:
        word = "supported"
    else:
        word = "not supported" if high <= least or low >= most else "inconclusive"
    bounds = (least, most) if back is float else (np.log(bound) if bound > 0 else -np.inf for bound in (least, most))
    needed = seeds_needed(values, *bounds) if word in DECIDABLE and not found.exact else ""
    return {"n": len(values), "measured": mean, "low": low, "high": high, "verdict": word, "seeds_needed": needed}


def seeds_needed(values: Sequence[float], least: float, most: float) -> str:
    """The smallest number of seeds at which an interval of this mean and spread lies inside the range or outside."""
    if len(values) < 2:
        return ""
    n = np.arange(2, MOST + 1)
    half = distributions.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)
    low, high = np.mean(values) - half, np.mean(values) + half
    enough = n[((low > least) & (high < most)) | (high <= least) | (low >= most)]  # the rule of `verdict`
    return str(enough[0]) if len(enough) else f"more than {MOST}"


def overall(claims: pd.DataFrame) -> pd.Series:
    """One verdict for each (study, claim), however many settings it was put to the test in.

    Any `not supported` decides, then any `inconclusive`. Supported in some settings and not measured in others is
    inconclusive. Settings that are not comparable count only where there are no others.
    """

    def verdict_of(found: pd.Series) -> str:
        words = set(found)
        if "supported" in words and "not measured" in words:
            words.add("inconclusive")
        return next(
            word for word in ("not supported", "inconclusive", *VERDICTS[:-1], DEMO, VERDICTS[-1]) if word in words
        )

    return claims.groupby(["study", "claim"], sort=False)["verdict"].agg(verdict_of)


def counts(claims: pd.DataFrame) -> pd.DataFrame:
    """How many claims of each study have which verdict overall."""
    table = overall(claims).reset_index()
    words = [*VERDICTS, *([DEMO] if DEMO in set(table["verdict"]) else [])]
    return pd.crosstab(table["study"], table["verdict"]).reindex(columns=words, fill_value=0)
