"""Fitted exponents: how a quantity falls or grows with width, or with the number of outputs, at initialisation.

    quantity = C n^b,    b from least squares on logarithms, one b for each seed

Theorems bound a quantity by C log(n) / sqrt(n). Over widths from 64 to 4,096 the bound itself falls like n^-0.33, since
its logarithm grows; `bound` is that exponent over the widths fitted. A relative error saturates near 1, which flattens
a fit; so where three widths or more have errors below SATURATED, on average over seeds, only those are fitted.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bench.report import stats

# Quantity -> the exponent in the thesis' statement, and where it is
STATED = {
    "off_on": (-0.5, "remark 3.3.3"),
    "frobenius": (-0.5, "fig. 3.3"),
    "frobenius_per_pair": (-0.5, "theorem 3.3.1"),
    "frobenius_per_point": (-0.5, "theorem 3.3.1"),
    "lambda_max": (-0.5, "fig. 3.4"),
    "lambda_max_per_point": (-0.5, "theorem 3.3.4"),
    "gap": (-0.5, "theorem 3.3.5"),
    "gap_without_prior": (-0.5, "theorem 3.3.5, without the prior"),
    "on_diagonal": (1.0, "lemma A.7.8"),
    "off_diagonal": (0.5, "lemma A.7.8"),
    "error_norm": (0.5, "lemma A.7.9"),
    "theta_norm": (1.0, "lemma A.7.10"),
}
SATURATED = 0.5  # of a relative error
KEYS = ["scale", "panel", "dataset", "net", "recipe", "inputs", "statistics", "along", "fixed", "quantity"]
RATES = [*KEYS, "seed", "from", "to", "points", "exponent", "constant"]
EXPONENTS = [
    *(*KEYS, "from", "to", "n", "exponent", "low", "high", "stated", "bound", "where", "constant"),
]


def rates(moments: pd.DataFrame) -> pd.DataFrame:
    """One exponent per seed, wherever a panel has three widths or more; of panel `outputs`, along O at each width."""
    start, rows = moments[moments["epoch"] == 0], []
    for along, fixed in (("width", "outputs"), ("outputs", "width")):
        keys = ["scale", "panel", "dataset", "net", "inputs", "train_points", "statistics", fixed]
        keys += ["recipe"] if along == "width" else []
        for values, group in start.groupby(keys, sort=False):
            if group[along].nunique() < 3:
                continue
            shared = dict(zip(keys, values, strict=True)) | {"along": along}
            shared |= {"fixed": shared[fixed], "recipe": group["recipe"].iloc[0]}
            for quantity, (stated, _) in STATED.items():
                fitted = unsaturated(group, along, quantity) if stated < 0 else group
                for seed, mine in fitted.groupby("seed"):
                    rows += [shared | {"seed": seed} | found for found in _fit(mine, along, quantity)]
    return pd.DataFrame(rows, columns=RATES)


def unsaturated(group: pd.DataFrame, along: str, quantity: str) -> pd.DataFrame:
    """The rows whose mean error over seeds is below SATURATED; all, if these are less than three widths."""
    means = group.groupby(along)[quantity].mean()
    below = means.index[means < SATURATED]
    return group[group[along].isin(below)] if len(below) >= 3 else group


def _fit(group: pd.DataFrame, along: str, quantity: str) -> Iterator[dict]:
    n, values = group[along].astype(float), group[quantity].astype(float)
    good = (values > 0) & np.isfinite(values)
    if good.sum() >= 3:
        slope, _ = np.polyfit(np.log(n[good]), np.log(values[good]), 1)
        yield {
            "quantity": quantity,
            "from": int(n[good].min()),
            "to": int(n[good].max()),
            "points": int(good.sum()),
            "exponent": slope,
            "constant": float((values[good] * np.sqrt(n[good]) / np.log(n[good])).max()),  # the C that fits all
        }


def exponents(fitted: pd.DataFrame) -> pd.DataFrame:
    """Mean and interval of the exponents over seeds, beside what the thesis states."""
    rows = []
    for values, group in fitted.groupby(KEYS, sort=False):
        row = dict(zip(KEYS, values, strict=True)) | {"from": group["from"].min(), "to": group["to"].max()}
        found, (stated, where) = stats.describe(group["exponent"]), STATED[row["quantity"]]
        along_width = row["along"] == "width"
        row |= {"n": len(group), "exponent": found["mean"], "low": found["low"], "high": found["high"]}
        row |= {"stated": stated if along_width else np.nan, "where": where if along_width else ""}
        row |= {"bound": bound(row["from"], row["to"]), "constant": group["constant"].max()}
        rows.append(row)
    return pd.DataFrame(rows, columns=EXPONENTS)


def bound(first: int, last: int) -> float:
    """The exponent of log(n) / sqrt(n) between two widths."""
    value = [np.log(np.log(n) / np.sqrt(n)) for n in (first, last)]
    return (value[1] - value[0]) / (np.log(last) - np.log(first))
