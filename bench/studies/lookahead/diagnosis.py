"""Why a strategy does what it does: what it buys, and how well the linearised look-ahead foretells retraining."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from scipy import stats as distributions

from bench.report.words import phrase
from bench.studies.lookahead.curves import RUN

WHERE = ["scale", "data", *RUN, "cycle", "labelled"]
BOUGHT = [*WHERE, "wrong", "wrong_of_all", "distance", "margin", "balance", "fingerprint"]
AUDIT = [*WHERE, "sample", "foretold", "repeated"]


def bought(records: Iterable[dict]) -> pd.DataFrame:
    """One row per query (bought.py has the words). `balance` is the entropy of the classes bought, 1 for equal shares;
    equal fingerprints mean equal images.
    """
    rows = [
        _where(record, cycle)
        | {key: value for key, value in cycle["bought"].items() if key != "classes"}
        | {"balance": _balance(cycle["bought"]["classes"]), "fingerprint": " ".join(map(str, sorted(cycle["queried"])))}
        for record, cycle in _queries(records)
    ]
    return pd.DataFrame(rows, columns=BOUGHT)


def audits(records: Iterable[dict]) -> pd.DataFrame:
    """One row per audited query: Spearman's rank correlation of the scores of a sample of candidates, `foretold` of the
    linearised network's with retraining's, and `repeated`, the most that can be had, of retraining's with its own.
    """
    rows = []
    for record, cycle in _queries(records):
        if "audit_retrained" in (notes := cycle["notes"]):
            foretold, retrained, again = (notes[f"audit_{key}"] for key in ("foretold", "retrained", "again"))
            found = {
                "foretold": _rank_correlation(foretold, retrained),
                "repeated": _rank_correlation(again, retrained),
            }
            rows.append(_where(record, cycle) | {"sample": len(foretold)} | found)
    return pd.DataFrame(rows, columns=AUDIT)


def _queries(records: Iterable[dict]):
    for record in records:
        if not record["only_timed"]:
            yield from ((record, cycle) for cycle in record["cycles"] if cycle["queried"])


def _where(record: dict, cycle: dict) -> dict:
    about = {"scale": record["scale"], "data": phrase(record["data"])}
    return record["cell"] | about | {key: cycle[key] for key in ("cycle", "labelled")}


def _balance(classes: list[int]) -> float:
    return float(distributions.entropy(classes) / np.log(len(classes)))


def _rank_correlation(a: list[float], b: list[float]) -> float:
    if min(np.ptp(a), np.ptp(b)) == 0:  # all equal: no order
        return float("nan")
    return float(distributions.spearmanr(a, b).statistic)
