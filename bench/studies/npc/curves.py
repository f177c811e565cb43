"""Learning curves of the NPC study: from records to one row per training.

A panel is a panel of a table of the paper: {"dataset", "net", "width", "recipe", "mode", "strategies", "seeds"}.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats as distributions

from bench.core.errors import UserError
from bench.report.words import phrase
from bench.studies.npc import INITIAL, Cell, needed, settings

PLACE = ["dataset", "net", "width", "recipe", "mode"]
RUN = [*PLACE, "strategy", "seed"]
CURVES = [
    *("scale", "data", "partial", "average_pool", *RUN, "device", "labelled", "test_accuracy", "last_accuracy"),
    *("train_accuracy", "pool_accuracy", "sure", "sure_accuracy", "predicted_balance", "median", "settings_hash"),
]


def curves(records: Iterable[dict]) -> pd.DataFrame:
    """One row per training. `predicted_balance` is the entropy of the classes predicted on the pool, 1 for equal
    shares; `median` marks, among the initial trainings, the one whose network all strategies query first.
    """
    records = list(records)
    for what in ("scale", "device"):
        if len(found := {record[what] for record in records}) > 1:
            raise UserError(
                f"records of different {what}s, {', '.join(sorted(found))}; delete those that do not belong"
            )
    rows = [
        record["cell"]
        | {"scale": record["scale"], "data": data_of(record), "device": record["device"]}
        | {key: record["data"][key] for key in ("partial", "average_pool")}
        | {"settings_hash": record["settings_hash"], "predicted_balance": balance(done["predicted"])}
        | {"median": record.get("median") == number}
        | {key: done[key] for key in CURVES if key in done}
        for record in records
        for number, done in enumerate(record["cycles"])
    ]
    return pd.DataFrame(rows, columns=CURVES).sort_values([*RUN, "labelled"], kind="stable", ignore_index=True)


def data_of(record: dict) -> str:
    """The images of a record in words, with how many of them it used where that is not all."""
    tested = record["settings"]["protocol"]["test"]
    pool = f", pool of {record['pool']:,}" if record["pool"] < record["data"]["train"] else ""
    return phrase(record["data"]) + pool + (f", tested on {tested:,}" if tested else "")


def balance(counts: list[int]) -> float:
    """Entropy of class counts, 1 for equal shares, 0 for a single class."""
    return float(distributions.entropy(counts) / np.log(len(counts)))


def of_place(frame: pd.DataFrame, panel: dict) -> pd.DataFrame:
    """The rows of a panel's setting, its strategies and its trials."""
    here = frame[(frame[PLACE] == [panel[key] for key in PLACE]).all(axis=1)]
    return here[here["seed"].isin(panel["seeds"]) & here["strategy"].isin(panel["strategies"])]


def by_panel(frame: pd.DataFrame, panels: dict) -> Iterator[tuple[str, dict, pd.DataFrame]]:
    """(name, panel, rows it shows); panels that have none are left out."""
    for name, panel in panels.items():
        if len(shown := of_place(frame, panel)):
            yield name, panel, shown


def initial_of(frame: pd.DataFrame, panel: dict, config: dict) -> pd.DataFrame:
    """The initial trainings behind a panel, if it starts from an initial model."""
    cell = Cell(*(panel[key] for key in PLACE), "random", 0)
    for other in needed(cell, settings(config, cell)):
        if other.mode == INITIAL:
            return of_place(frame, vars(replace(other)) | {"seeds": [0], "strategies": ["random"]})
    return frame.iloc[:0]


def by_trial(frame: pd.DataFrame, panel: dict, strategy: str, labelled: int | None) -> pd.Series:
    """Trial -> test accuracy of a strategy, with so many labels; None: the mean over all its label counts."""
    mine = of_place(frame, panel)
    mine = mine[mine["strategy"] == strategy]
    if labelled is not None:
        mine = mine[mine["labelled"] == labelled]
    return mine.groupby("seed")["test_accuracy"].mean()
