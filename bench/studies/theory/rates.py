"""Rates: the slope of log error on log size, seed by seed, and its interval.

With few seeds the t-interval over the seeds' own slopes is the honest one, and it gives the verdict. A pairs bootstrap
over seeds stands beside it, for comparison.
"""

import numpy as np
import pandas as pd
from scipy import stats as distributions

from bench.core import csv, study
from bench.report import stats

RATES = [
    *("scale", "claim", "experiment", "setting", "group", "quantity", "along", "first", "last", "n", "exponent"),
    *("low", "high", "bootstrap_low", "bootstrap_high"),
]


def slopes(rows: pd.DataFrame, quantity: str, along: str) -> pd.Series:
    """Seed -> exponent p of quantity ~ along^p, by least squares on logarithms averaged over trials of equal size."""
    positive = rows[(rows[quantity] > 0) & (rows[along] > 0)]
    logs = np.log(positive[[quantity, along]]).assign(seed=positive["seed"])
    means = logs.groupby(["seed", along])[quantity].mean().reset_index()
    enough = means.groupby("seed").filter(lambda points: len(points) > 1)
    return enough.groupby("seed")[[along, quantity]].apply(
        lambda points: np.polyfit(points[along], points[quantity], 1)[0]
    )


def groups(frames: dict[str, pd.DataFrame], claim: dict):
    """(setting, group, rows) for every setting of a claim's experiment, and every value of its column `by`."""
    table = frames[f"theory-{claim['experiment']}"]
    table = table.query(claim["rows"]) if claim["rows"] else table
    by = claim["by"].split()
    for key, rows in table.groupby(["setting", *by], sort=True):
        yield key[0], ", ".join(f"{name} = {value}" for name, value in zip(by, key[1:], strict=True)), rows


def rates(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The exponents behind every claim about a rate."""
    claims = csv.read(study.folder("theory") / "claims.csv").fillna("")
    found = []
    for claim in claims[claims["quantity"].str.startswith("rate ")].to_dict("records"):
        quantity = claim["quantity"].removeprefix("rate ")
        for setting, group, rows in groups(frames, claim):
            values = slopes(rows, quantity, claim["along"])
            if len(values):
                described = stats.describe(values)
                low, high = _bootstrap(values.to_numpy())
                span = {"first": rows[claim["along"]].min(), "last": rows[claim["along"]].max(), "n": len(values)}
                about = {"scale": rows["scale"].iloc[0], "setting": setting, "group": group, "quantity": quantity}
                about |= {key: claim[key] for key in ("claim", "experiment", "along")}
                interval = {"exponent": described["mean"], "low": described["low"], "high": described["high"]}
                found.append(about | span | interval | {"bootstrap_low": low, "bootstrap_high": high})
    return pd.DataFrame(found, columns=RATES)


def _bootstrap(values: np.ndarray) -> tuple[float, float]:
    if len(values) < 2 or np.ptp(values) == 0:
        return stats.NAN, stats.NAN
    found = distributions.bootstrap((values,), np.mean, n_resamples=2000, method="percentile", rng=0)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)
