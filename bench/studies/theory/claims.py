"""What the experiments say of the statements in claims.csv. Its columns, beside the common ones:

    experiment    whose table is read
    rows          which of its rows, as a pandas query; empty: all
    by            columns whose values are judged apart, beside the setting
    quantity      `largest x`, `smallest x`: over all trials; a bound or an identity, which one trial can refute
                  `rate x`: the exponent of x in the column `along`, one slope per seed
                  `mean x`: the mean over trials, one value per seed
                  `ratio x`: the geometric mean of x, which is a ratio, one value per seed
                  `correlation x`: Spearman's, of x with the column `along`, one value per seed

A slip of a text is two claims: as printed, and as meant.
"""

import numpy as np
import pandas as pd

from bench.core.study import texts
from bench.report.claims import Measured
from bench.studies.theory import departures
from bench.studies.theory.rates import groups, slopes


def measure(claim: dict, frames: dict[str, pd.DataFrame], config: dict) -> list[Measured]:
    """One for every setting and group of the claim's experiment."""
    claim = {key: "" if pd.isna(value) else value for key, value in claim.items()}
    kind, _, column = claim["quantity"].partition(" ")
    said = texts(departures(config)).get(claim["experiment"], "")
    return [
        Measured(
            KINDS[kind](rows, column, claim["along"]),
            setting=", ".join(filter(None, [setting, group])),
            unit="times" if kind == "ratio" else "",
            exact=kind in EXACT,
            departures=said,
            note=f"{len(rows):,} trials" if kind in EXACT else "",
        )
        for setting, group, rows in groups(frames, claim)
    ]


KINDS = {
    "largest": lambda rows, column, _: rows.groupby("seed")[column].max(),
    "smallest": lambda rows, column, _: rows.groupby("seed")[column].min(),
    "mean": lambda rows, column, _: rows.groupby("seed")[column].mean(),
    "ratio": lambda rows, column, _: np.log(rows[column]).groupby(rows["seed"]).mean(),
    "rate": slopes,
    "correlation": lambda rows, column, along: rows.groupby("seed")[[column, along]].apply(
        lambda seed: seed[column].corr(seed[along], method="spearman")
    ),
}
EXACT = ("largest", "smallest")
