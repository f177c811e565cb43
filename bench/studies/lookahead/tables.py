"""Tables of the look-ahead study (thesis ch. 2): pure functions from records to frames.

Every function takes whatever cells are finished; a panel or strategy without one has no rows. Accuracies are fractions,
intervals are 95% t-intervals of the mean over seeds, differences are to random acquisition by the same model, paired by
seed. Runs of a strategy that only measures time (`naive+timed=sample`) are in no table of accuracies or costs.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict

import pandas as pd

from bench.core import csv, study
from bench.report import claims, stats
from bench.report.words import phrase
from bench.studies import lookahead
from bench.studies.lookahead import significance, times
from bench.studies.lookahead.choices import choices
from bench.studies.lookahead.curves import SETTING, by_panel, curves, diverged, elsewhere, runs
from bench.studies.lookahead.diagnosis import audits, bought

PUBLISHED = study.folder("lookahead") / "published"
BASELINES = {"gp": "gp-random", "gp-random": "gp-random"}  # what a difference is to; of all others, `random`

SUMMARY = [
    *("scale", "panel", "dataset", "data", "partial", "average_pool", "net", "width", "recipe", "strategy", "device"),
    *("cycle", "labelled", "n", "accuracy_mean", "accuracy_sd", "accuracy_low", "accuracy_high", "difference_n"),
    *("difference_mean", "difference_sd", "difference_low", "difference_high", "loss_mean", "train_loss_mean"),
    *("baseline", "diverged", "deviations"),
]
AREAS = [
    *("scale", "panel", "data", *SETTING, "strategy", "n", "area_mean", "area_sd", "area_low", "area_high"),
    *("difference_n", "difference_mean", "difference_sd", "difference_low", "difference_high", "baseline", "diverged"),
]
COSTS = [
    *("scale", "data", *SETTING, "strategy", "device_name", "threads", "n", "train_seconds", "query_seconds"),
    *("evaluate_seconds", "total_seconds", "peak_memory_mb"),
]
DEPARTURES = ["scale", "panel", "what", "here", "paper"]


def tables(records: list[dict], metas: list[dict], config: dict) -> dict[str, pd.DataFrame]:
    """Every table of the study, from its records and their accounts in the same order."""
    panels, departing = lookahead.panels(config), lookahead.departures(config)
    timed = {record["cell"]["strategy"] for record in records if record["only_timed"]}
    comparable = {
        name: panel | {"strategies": [each for each in panel["strategies"] if each not in timed]}
        for name, panel in panels.items()
    }
    curve, queries = curves(records), times.queries(records, metas)
    tests = significance.tests(curve, comparable)
    frames = {
        "lookahead-curves": curve,
        "lookahead-runs": runs(curve),
        "lookahead-summary": summary(curve, panels, study.texts(departing)),
        "lookahead-areas": areas(curve, panels),
        "lookahead-tests": tests,
        "lookahead-ranks": significance.ranks(curve, comparable),
        "lookahead-costs": costs(records, metas),
        "lookahead-queries": queries,
        "lookahead-times": times.times(queries, csv.read(study.folder("lookahead") / "claims.csv")),
        "lookahead-times-per-cycle": times.per_cycle(queries, panels),
        "lookahead-choices": choices(curve, csv.read(PUBLISHED / "thesis-choices.csv")),
        "lookahead-bought": bought(records),
        "lookahead-audit": audits(records),
        "lookahead-improvement": significance.improvement(curve, comparable),
        "lookahead-departures": pd.DataFrame([asdict(each) for each in departing], columns=DEPARTURES).assign(
            scale=config["scale"]
        ),
        "thesis-2.1": significance.thesis_2_1(tests, csv.read(PUBLISHED / "thesis-2.1.csv")),
    }
    return frames | {"lookahead-claims": claims.ledger("lookahead", frames, config)}


def summary(curves: pd.DataFrame, panels: dict, deviations: Mapping[str, str] | None = None) -> pd.DataFrame:
    """One row per panel, strategy and cycle; `deviations` says per panel how it departs from the thesis."""
    rows = []
    accuracy = curves["test_accuracy"].mask(elsewhere(curves))
    curves = curves.assign(test_accuracy=accuracy)
    for panel, shown in by_panel(_against_baseline(curves, "test_accuracy", ["seed", "cycle"]), panels):
        device = "+".join(sorted(shown["device"].unique()))
        if "+" in device:
            print(f"warning: {panel} puts together results of different devices ({device})", file=sys.stderr)
        for _, group in shown.groupby(["strategy", "cycle"]):
            rows.append(
                {
                    **group.iloc[0],
                    "panel": panel,
                    "device": device,
                    "n": group["test_accuracy"].count(),
                    **_prefixed("accuracy", group["test_accuracy"]),
                    "difference_n": group["difference"].count(),
                    **_prefixed("difference", group["difference"]),
                    "loss_mean": group["test_loss"].mean(),
                    "train_loss_mean": group["train_loss"].mean(),
                    "diverged": group["diverged"].sum(),
                    "deviations": (deviations or {}).get(panel, ""),
                }
            )
    return pd.DataFrame(rows, columns=SUMMARY)


def areas(curves: pd.DataFrame, panels: dict) -> pd.DataFrame:
    """Area under the learning curve per panel and strategy, as an average accuracy."""
    every = dict(by_panel(curves, panels))
    rows = [
        {
            **group.iloc[0],
            "panel": panel,
            "n": len(group),
            **_prefixed("area", group["area"]),
            "difference_n": group["difference"].count(),
            **_prefixed("difference", group["difference"]),
            "diverged": diverged(every[panel], strategy),
        }
        for panel, shown in by_panel(_against_baseline(runs(curves), "area", ["seed"]), panels)
        for strategy, group in shown.groupby("strategy")
    ]
    return pd.DataFrame(rows, columns=AREAS)


def costs(records: Iterable[dict], metas: Iterable[dict]) -> pd.DataFrame:
    """Mean seconds and greatest memory per setting and strategy, from records and their metas in the same order.

    Times of different machines or thread counts are never averaged: each has its row. What was only timed on a sample
    is in the tables of `bench.studies.lookahead.times`, multiplied.
    """
    rows = [
        {
            **record["cell"],
            "scale": record["scale"],
            "data": phrase(record["data"]),
            "device_name": meta["device"]["name"],
            "threads": meta["threads"],
            "peak_memory_mb": meta["peak_memory_mb"],
            **{
                f"{phase}_seconds": meta["seconds"].get(phase, 0.0) for phase in ("train", "query", "evaluate", "total")
            },
        }
        for record, meta in zip(records, metas, strict=True)
        if not record["only_timed"]
    ]
    keys = COSTS[: COSTS.index("n")]
    frame = pd.DataFrame(rows, columns=[*keys, "seed", *COSTS[len(keys) + 1 :]])
    means = {column: (column, "mean") for column in COSTS if column.endswith("_seconds")}
    grouped = frame.groupby(keys, as_index=False, dropna=False)
    return grouped.agg(n=("seed", "count"), **means, peak_memory_mb=("peak_memory_mb", "max"))[COSTS]


def _against_baseline(frame: pd.DataFrame, value: str, keys: list[str]) -> pd.DataFrame:
    """With columns `baseline` (a strategy) and `difference`: to its value in the same setting at the same keys."""
    keys = [*SETTING, *keys, "baseline"]
    names = frame["strategy"].map(lambda name: BASELINES.get(name.partition("+")[0], "random")).astype(object)
    values = frame.rename(columns={"strategy": "baseline", value: "reference"})[[*keys, "reference"]]
    frame = frame.assign(baseline=names).merge(values, on=keys, how="left")
    return frame.assign(difference=frame[value] - frame["reference"])


def _prefixed(name: str, values: pd.Series) -> dict[str, float]:
    return {f"{name}_{key}": value for key, value in stats.describe(values).items()}
