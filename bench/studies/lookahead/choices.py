"""Where the thesis and its released code differ, and what each difference changes in accuracy.

published/thesis-choices.csv lists the choices: the axis of a cell it is made on (strategy, recipe or net), the
thesis' arm, the code's, and which is this suite's default. Only what has finished runs of both arms at the same seeds
has a row. Differences are code minus thesis, paired by seed, with 95% t-intervals and the p of the paired t-test;
`diverged` counts the runs among them that were made again at the fallback rate.
"""

import pandas as pd

from bench.report import stats
from bench.studies.lookahead.curves import SETTING, runs

AXES = [*SETTING, "strategy"]
PARTS = ("mean", "low", "high", "p")
CHOICES = [
    *("scale", "data", "choice", *AXES, "thesis", "code", "default", "n", "diverged"),
    *(f"{value}_{part}" for value in ("final", "area") for part in PARTS),
    *("thesis_source", "code_source"),
]


def choices(curves: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """One row per choice and setting in which both arms have run."""
    finished = runs(curves)
    rows = []
    for choice in published.to_dict("records"):
        axis = choice["axis"]
        rest = [key for key in AXES if key != axis]
        for thesis, code in _arms(choice, finished[axis].unique()):
            pair = {name: finished[finished[axis] == spec] for name, spec in (("thesis", thesis), ("code", code))}
            both = pair["thesis"].merge(pair["code"], on=[*rest, "seed"], suffixes=("", "_code"))
            for _, group in both.groupby(rest):
                first = group.iloc[0]
                about = {key: first[key] for key in ("scale", "data", *rest)} | {axis: ""}
                about |= choice | {"thesis": thesis, "code": code, "n": len(group)}
                about["diverged"] = group["diverged"].sum() + group["diverged_code"].sum()
                final = _compared(group, "test_accuracy", "final")
                rows.append(about | final | _compared(group, "area", "area"))
    return pd.DataFrame(rows, columns=CHOICES)


def _arms(choice: dict, present: list[str]) -> list[tuple[str, str]]:
    """Pairs of specs. Where one arm is empty, the other (`+view=augmented`) is added to every spec that lacks it."""
    thesis, code = choice["thesis"], choice["code"]
    if thesis and code:
        return [(thesis, code)]
    return [(spec + thesis, spec + code) for spec in present if thesis + code not in spec]


def _compared(group: pd.DataFrame, column: str, name: str) -> dict[str, float]:
    frame = pd.DataFrame({"code": group[f"{column}_code"], "thesis": group[column]})
    described = stats.describe((frame["code"] - frame["thesis"]).round(12))
    p = stats.paired_tests(frame)["p"].iloc[0]
    return {f"{name}_{part}": {**described, "p": p}[part] for part in PARTS}
