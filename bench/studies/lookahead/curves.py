"""Learning curves of the look-ahead study: from records to one row per cell and cycle, and what is made of those.

A panel is a panel of a figure of the thesis: {"dataset", "net", "width", "recipe", "strategies", "seeds"}. A run that
diverged was made again at its recipe's fallback rate; where the rate is what a setting is about (`l2+lr=0.3`), its
accuracies do not count, elsewhere they do; `diverged` says how many runs these are, counted or not.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import pandas as pd

from bench.core.errors import UserError
from bench.report import stats
from bench.report.words import phrase

SETTING = ["dataset", "net", "width", "recipe"]
RUN = [*SETTING, "strategy", "seed"]
CURVES = [
    *(
        "scale",
        "data",
        "dataset",
        "train_size",
        "test_size",
        "partial",
        "average_pool",
        "net",
        "width",
        "recipe",
        "strategy",
    ),
    *("seed", "device", "learning_rate", "diverged", "cycle", "labelled", "test_accuracy", "test_loss", "train_loss"),
    *("train_accuracy", "settings_hash"),
]


def curves(records: Iterable[dict]) -> pd.DataFrame:
    """One row per cell and cycle. Records that do not belong together are refused."""
    records = list(records)
    _refuse_mixed(records)
    records = [record for record in records if not record["only_timed"]]
    rows = [
        {
            **record["cell"],
            "scale": record["scale"],
            "data": phrase(record["data"]),
            "train_size": record["data"]["train"],
            "test_size": record["data"]["test"],
            "partial": record["data"]["partial"],
            "average_pool": record["data"]["average_pool"],
            "device": record["device"],
            "learning_rate": record["learning_rate"],
            "diverged": record["diverged"] is not None,
            "settings_hash": record["settings_hash"],
            **cycle,
        }
        for record in records
        for cycle in record["cycles"]
    ]
    return pd.DataFrame(rows, columns=CURVES).sort_values([*RUN, "cycle"], ignore_index=True)


def _refuse_mixed(records: list[dict]) -> None:
    """What has to be one value within a group; settings are equal for every strategy and seed of one setting."""
    rules = (
        ("scale", [], lambda record: record["scale"]),
        ("data checksum", ["dataset"], lambda record: record["data"]["checksum"]),
        ("settings_hash", SETTING, lambda record: record["settings_hash"]),
    )
    for what, group, value in rules:
        found: dict[tuple, dict[str, list[str]]] = {}
        for record in records:
            key = tuple(record["cell"][name] for name in group)
            found.setdefault(key, {}).setdefault(value(record), []).append(_name(record))
        for key, cells in found.items():
            if len(cells) > 1:
                where = f" of {', '.join(map(str, key))}" if key else ""
                listed = "; ".join(f"{each} in {_some(names)}" for each, names in sorted(cells.items()))
                raise UserError(f"{what}{where} differs between cells: {listed}; delete the outdated ones and re-run")
    if twice := [name for name, count in Counter(map(_name, records)).items() if count > 1]:
        raise UserError(f"found more than one record of {_some(twice)}; keep one of each")


def _name(record: dict) -> str:
    return "/".join(str(record["cell"][key]) for key in RUN)


def _some(names: list[str], most: int = 3) -> str:
    return ", ".join(sorted(names)[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def runs(curves: pd.DataFrame) -> pd.DataFrame:
    """One row per complete run: that of its last cycle, and the area under its curve."""
    rows = [
        {**run.iloc[-1], "area": stats.area(run["labelled"], run["test_accuracy"])}
        for _, run in complete(curves).groupby(RUN)
    ]
    return pd.DataFrame(rows, columns=[*CURVES, "area"])


def complete(curves: pd.DataFrame) -> pd.DataFrame:
    """The runs at their setting's rate that have as many cycles as any of their setting."""
    curves = curves[~elsewhere(curves)]
    cycles = curves.groupby(RUN)["cycle"].transform("count")
    return curves[cycles == cycles.groupby([curves[key] for key in SETTING]).transform("max")]


def elsewhere(curves: pd.DataFrame) -> pd.Series:
    """The rows of runs that ended at another rate than the one their setting is about."""
    return curves["diverged"].astype(bool) & curves["recipe"].str.contains("+lr=", regex=False)


def of_setting(frame: pd.DataFrame, panel: dict) -> pd.DataFrame:
    """The rows of a panel's setting and seeds, whatever their strategy."""
    here = frame[(frame[SETTING] == [panel[key] for key in SETTING]).all(axis=1)]
    return here[here["seed"].isin(panel["seeds"])] if "seeds" in panel else here


def by_panel(frame: pd.DataFrame, panels: dict) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows each panel shows; panels that have none are left out."""
    for name, panel in panels.items():
        here = of_setting(frame, panel)
        shown = here[here["strategy"].isin(panel["strategies"])]
        if len(shown):
            yield name, shown


def diverged(curves: pd.DataFrame, *strategies: str) -> int:
    """How many runs of these strategies diverged."""
    mine = curves[curves["strategy"].isin(strategies)]
    return len(mine.loc[mine["diverged"].astype(bool), RUN].drop_duplicates())
