"""The statistics behind tables and figures: pure functions on arrays and on frames of blocks.

A frame of blocks has one row per block (a cycle, a seed, ...) and one column per strategy, without gaps; higher is
better. A test that cannot be made, or whose formula divides by zero, says so in `note`.
"""

from itertools import combinations

import numpy as np
import pandas as pd
import scikit_posthocs
from numpy.typing import ArrayLike
from scipy import stats
from statsmodels.stats.multitest import multipletests

PAIR = ["strategy_a", "strategy_b"]
NAN = float("nan")


def describe(values: ArrayLike) -> dict[str, float]:
    """Mean, sample deviation and 95% t-interval of the mean, of the values that are there."""
    values = np.asarray(values, dtype=float)
    values = values[~np.isnan(values)]
    if not len(values):
        return dict.fromkeys(("mean", "sd", "low", "high"), NAN)
    low, high = t_interval(values)
    return {
        "mean": float(values.mean()),
        "sd": float(values.std(ddof=1)) if len(values) > 1 else NAN,
        "low": low,
        "high": high,
    }


def t_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Confidence interval of the mean; NaN for a single value.

    The thesis (2.4) shades a 95% interval over six seeds without naming the quantile. We take Student's t, the exact
    one for so few.
    """
    values = np.asarray(values, dtype=float)
    n = len(values)
    if n < 2:
        return NAN, NAN
    half = stats.t.ppf((1 + confidence) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return float(values.mean() - half), float(values.mean() + half)


def area(labelled: ArrayLike, accuracy: ArrayLike) -> float:
    """Area under a learning curve over its range of labels, so an average accuracy; of one point, its accuracy."""
    labelled, accuracy = np.asarray(labelled, dtype=float), np.asarray(accuracy, dtype=float)
    if len(labelled) == 1:
        return float(accuracy[0])
    return float(np.trapezoid(accuracy, labelled) / (labelled[-1] - labelled[0]))


def probability_of_improvement(a: ArrayLike, b: ArrayLike, resamples: int = 2000) -> dict[str, float]:
    """P(a run of a is better than a run of b), ties as halves, with a 95% percentile bootstrap over runs of either."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    value = float(_better(a, b))
    if min(len(a), len(b)) < 2:
        return {"probability": value, "low": NAN, "high": NAN}
    found = stats.bootstrap((a, b), _better, n_resamples=resamples, vectorized=True, method="percentile", rng=0)
    return {
        "probability": value,
        "low": float(found.confidence_interval.low),
        "high": float(found.confidence_interval.high),
    }


def _better(a: np.ndarray, b: np.ndarray, axis: int = -1) -> np.ndarray:
    """The share of pairs (..., n, m) in which a (..., n) exceeds b (..., m)."""
    pairs = a[..., :, None] - b[..., None, :]
    return (np.heaviside(pairs, 0.5)).mean(axis=(-2, -1))


def friedman(blocks: pd.DataFrame) -> dict[str, float | str]:
    """Friedman's test with ties corrected; the effect is Kendall's W, from 0 (no agreement) to 1."""
    if note := _too_small(blocks):
        return {"statistic": NAN, "p": NAN, "effect": NAN, "note": note}
    if (blocks.nunique(axis=1) == 1).all():
        return {"statistic": 0.0, "p": 1.0, "effect": 0.0, "note": "all strategies tied in every block"}
    statistic, p = stats.friedmanchisquare(*blocks.to_numpy().T)
    n, k = blocks.shape
    return {"statistic": float(statistic), "p": float(p), "effect": float(statistic / (n * (k - 1))), "note": ""}


def paired_tests(blocks: pd.DataFrame) -> pd.DataFrame:
    """Two-sided paired t-test of every pair, p also after Holm; the effect is Cohen's d_z; differences are a - b."""
    rows = [{"strategy_a": a, "strategy_b": b} | _paired_test(blocks[a], blocks[b]) for a, b in _pairs(blocks)]
    columns = [*PAIR, "statistic", "p", "p_holm", "effect", "mean_difference", "note"]
    table = pd.DataFrame(rows, columns=columns)
    table["p_holm"] = holm(table["p"])
    return table


def _paired_test(a: pd.Series, b: pd.Series) -> dict[str, float | str]:
    difference = (a - b).to_numpy()
    mean = float(difference.mean()) if len(difference) else NAN
    if len(difference) < 2:
        note = f"needs 2 blocks, has {len(difference)}"
        return {"statistic": NAN, "p": NAN, "effect": NAN, "mean_difference": mean, "note": note}
    # Equal differences leave rounding noise as their variance, and t would be noise as well.
    resolution = 1e-12 * max(a.abs().max(), b.abs().max())
    if np.abs(difference).max() <= resolution:
        return {"statistic": 0.0, "p": 1.0, "effect": 0.0, "mean_difference": 0.0, "note": "equal in every block"}
    if np.ptp(difference) <= resolution:
        note = "the same difference in every block: no variance, so no t"
        return {"statistic": NAN, "p": NAN, "effect": NAN, "mean_difference": mean, "note": note}
    statistic, p = stats.ttest_rel(a, b)
    effect = mean / difference.std(ddof=1)
    return {"statistic": float(statistic), "p": float(p), "effect": effect, "mean_difference": mean, "note": ""}


def holm(p: ArrayLike) -> np.ndarray:
    """Holm's correction over the p-values that are there."""
    p = np.asarray(p, dtype=float)
    corrected = np.full(len(p), NAN)
    there = ~np.isnan(p)
    if there.any():
        corrected[there] = multipletests(p[there], method="holm")[1]
    return corrected


def nemenyi(blocks: pd.DataFrame) -> pd.DataFrame:
    """Nemenyi's test of every pair after Friedman's; the effect is the difference of average ranks, a - b."""
    columns = [*PAIR, "statistic", "p", "effect", "note"]
    table = pd.DataFrame(_pairs(blocks), columns=PAIR).reindex(columns=columns)
    table["note"] = _too_small(blocks)
    if _too_small(blocks):
        return table
    n, k = blocks.shape
    ranks = average_ranks(blocks)
    matrix = scikit_posthocs.posthoc_nemenyi_friedman(blocks.to_numpy())
    matrix.index = matrix.columns = blocks.columns
    table["effect"] = [ranks[a] - ranks[b] for a, b in _pairs(blocks)]
    table["statistic"] = table["effect"].abs() / np.sqrt(k * (k + 1) / (6 * n))
    table["p"] = [float(np.clip(matrix.loc[a, b], 0, 1)) for a, b in _pairs(blocks)]
    return table


def average_ranks(blocks: pd.DataFrame) -> pd.Series:
    """Average rank of every strategy, 1 for the best; ties share their mean rank."""
    return blocks.rank(axis=1, ascending=False).mean()


def _pairs(blocks: pd.DataFrame) -> list[tuple[str, str]]:
    return list(combinations(blocks.columns, 2))


def _too_small(blocks: pd.DataFrame) -> str:
    if blocks.shape[1] < 3:
        return f"needs 3 strategies, has {blocks.shape[1]}"
    return "" if len(blocks) > 1 else f"needs 2 blocks, has {len(blocks)}"
