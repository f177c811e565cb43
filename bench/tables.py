"""Tables of the look-ahead study (thesis ch. 2): pure functions from records to frames, and one that writes a frame.

A panel is a panel of a figure of the thesis: {"dataset", "net", "width", "recipe", "strategies"}. Every function takes
whatever cells are finished; a panel or strategy without one has no rows. Accuracies are fractions, intervals are 95%
t-intervals of the mean over seeds, differences are to the random acquisition of the same model, paired by seed.

Runs of a strategy that only measures time (`naive+timed=sample`) are in no table of accuracies or costs. A run that
diverged was made again at its recipe's fallback rate; where the rate is what a setting is about (`l2+lr=0.3`), its
accuracies do not count, elsewhere they do; `diverged` says how many runs these are, counted or not.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pandas as pd

from bench import stats
from bench.errors import UserError
from bench.files import replacing
from bench.grid import timing_only

SETTING = ["dataset", "net", "width", "recipe"]
RUN = [*SETTING, "strategy", "seed"]
BLOCKS = {"cycles": "cycle", "seeds": "seed"}  # the first is how the thesis' p of 0.0045 can come about, see `tests`
# Table 2.1 tests the look-ahead methods of fig. 2.1b without the random baselines drawn there.
TABLE_2_1 = {"name": "thesis-2.1", "panel": "thesis-2.1b", "strategies": ["ntk", "one-step", "infinite", "gp"]}
BASELINES = {"gp": "gp-random", "gp-random": "gp-random"}  # what a difference is to; of all others, `random`
ALPHA = 0.05

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
NUMBERS = ["statistic", "p", "p_holm", "effect", "mean_difference"]
TESTS = [
    *("scale", "panel", "data", "blocks", "test", *stats.PAIR, "blocks_n", "strategies_n", "seeds_n", "diverged"),
    *(*NUMBERS, "note"),
]
RANKS = ["scale", "kind", *stats.PAIR, "value", "blocks_n", "settings_n", "seeds_n", "diverged", "data", "note"]
COSTS = [
    *("scale", "data", *SETTING, "strategy", "device_name", "threads", "n", "train_seconds", "query_seconds"),
    *("evaluate_seconds", "total_seconds", "peak_memory_mb"),
]


def write(frame: pd.DataFrame, path: Path | str) -> None:
    """Write a CSV whose bytes depend on what the frame says, not on the order its rows came in; all or nothing."""
    keys = [column for column in frame.columns if not pd.api.types.is_float_dtype(frame[column])]
    with replacing(Path(path)) as part:
        frame.sort_values(keys, kind="stable").to_csv(part, index=False, float_format="%.10g", lineterminator="\n")


def curves(records: Iterable[dict]) -> pd.DataFrame:
    """One row per cell and cycle. Records that do not belong together are refused."""
    records = list(records)
    _refuse_mixed(records)
    records = [record for record in records if not timing_only(record["cell"]["strategy"])]
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


def compared(panels: dict) -> dict:
    """The panels with those strategies whose accuracies can be compared."""
    return {
        name: panel | {"strategies": [each for each in panel["strategies"] if not timing_only(each)]}
        for name, panel in panels.items()
    }


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


def summary(curves: pd.DataFrame, panels: dict, deviations: Mapping[str, str] | None = None) -> pd.DataFrame:
    """One row per panel, strategy and cycle; `deviations` says per panel how it departs from the thesis."""
    rows = []
    accuracy = curves["test_accuracy"].mask(_elsewhere(curves))
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


def tests(curves: pd.DataFrame, panels: dict) -> pd.DataFrame:
    """Friedman's test per panel, then every pair by paired t-test (as thesis 2.4) and by Nemenyi's.

    The thesis does not say what its blocks were. Over its four methods p = 0.0045 cannot come from six untied blocks,
    the number of seeds, but can from five or ten, so `cycles` (mean over seeds at a cycle) is the reading of choice;
    `seeds` (mean over the cycles of a seed) stands beside it because cycles of one run are not independent. Cycle 0 is
    no block: nothing has been queried by then, so that strategies of one network tie by construction.
    Only seeds that all the panel's strategies have finished take part. Table 2.1 counts as a panel of its own.
    """
    panels = compared(panels)
    if TABLE_2_1["panel"] in panels:
        panels = panels | {TABLE_2_1["name"]: panels[TABLE_2_1["panel"]] | {"strategies": TABLE_2_1["strategies"]}}
    parts, every = [], dict(by_panel(curves, panels))
    for panel, shown in by_panel(_complete(curves), panels):
        present = [name for name in panels[panel]["strategies"] if name in set(shown["strategy"])]
        absent = [name for name in panels[panel]["strategies"] if name not in present]
        seeds = set.intersection(*(set(group["seed"]) for _, group in shown.groupby("strategy")))
        shown = shown[shown["seed"].isin(seeds)]
        for kind, block in BLOCKS.items():
            # Rounded, for equal accuracies summed in another order must stay ties.
            counted = shown[shown["cycle"] > 0] if block == "cycle" else shown
            blocks = counted.pivot_table(index=block, columns="strategy", values="test_accuracy").round(12)
            blocks = blocks.reindex(columns=present)
            whole = stats.friedman(blocks)
            if absent:
                whole["note"] = "; ".join(filter(None, [whole["note"], f"no finished cell of {', '.join(absent)}"]))
            part = pd.concat(
                [
                    pd.DataFrame([whole]).assign(test="friedman", strategy_a="", strategy_b=""),
                    stats.paired_tests(blocks).assign(test="paired-t"),
                    stats.nemenyi(blocks).assign(test="nemenyi"),
                ]
            )
            sizes = {"blocks_n": len(blocks), "strategies_n": len(present), "seeds_n": len(seeds)}
            sizes["diverged"] = diverged(every[panel], *present)
            origin = {"scale": curves["scale"].iloc[0], "panel": panel, "data": shown["data"].iloc[0]}
            parts.append(part.assign(blocks=kind, **origin, **sizes))
    table = pd.concat(parts, ignore_index=True)[TESTS] if parts else pd.DataFrame(columns=TESTS)
    return table.astype(dict.fromkeys(NUMBERS, float))  # columns that no test of a part fills would become objects


def ranks(curves: pd.DataFrame, panels: dict) -> pd.DataFrame:
    """Average ranks by area over blocks of (setting, seed), with Friedman's and Nemenyi's p, in one long table.

    Settings count in which the panels compare at least three strategies, by a recipe as it is (not `l2+lr=0.3`); the
    strategies ranked are those that all of these settings share, in blocks where each has finished. Seeds of one
    setting are not independent of each other, so the tests are surer of themselves than they should be; over few
    settings there is no other way to have blocks.
    """
    shown: dict[tuple, set[str]] = {}
    for panel in compared(panels).values():
        shown.setdefault(tuple(panel[key] for key in SETTING), set()).update(panel["strategies"])
    shown = {setting: names for setting, names in shown.items() if len(names) > 2 and "+" not in setting[-1]}
    shared = set.intersection(*shown.values()) if shown else set()
    ranked = runs(curves)
    ranked = ranked[ranked["strategy"].isin(shared) & pd.MultiIndex.from_frame(ranked[SETTING]).isin(list(shown))]
    blocks = ranked.pivot(index=[*SETTING, "seed"], columns="strategy", values="area").dropna().round(12)
    if blocks.empty:
        return pd.DataFrame(columns=RANKS)
    whole, nemenyi = stats.friedman(blocks), stats.nemenyi(blocks)
    table = pd.concat(
        [
            pd.DataFrame([{"kind": "friedman", "strategy_a": "", "value": whole["p"], "note": whole["note"]}]),
            stats.average_ranks(blocks).rename_axis("strategy_a").reset_index(name="value").assign(kind="rank"),
            nemenyi.assign(kind="nemenyi", value=nemenyi["p"]),
        ]
    )
    counted = ranked.set_index([*SETTING, "seed"]).loc[blocks.index]
    return table.assign(
        scale=counted["scale"].iloc[0],
        blocks_n=len(blocks),
        settings_n=len(blocks.groupby(SETTING)),
        seeds_n=blocks.index.get_level_values("seed").nunique(),
        diverged=counted["diverged"].sum(),
        data="; ".join(sorted(counted["data"].unique())),
    ).fillna({"strategy_b": "", "note": ""})[RANKS]


def costs(records: Iterable[dict], metas: Iterable[dict]) -> pd.DataFrame:
    """Mean seconds and greatest memory per setting and strategy, from records and their metas in the same order.

    Times of different machines or thread counts are never averaged: each has its row. What was only timed on a sample
    is in the tables of `bench.times`, multiplied.
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
        if not timing_only(record["cell"]["strategy"])
    ]
    keys = COSTS[: COSTS.index("n")]
    frame = pd.DataFrame(rows, columns=[*keys, "seed", *COSTS[len(keys) + 1 :]])
    means = {column: (column, "mean") for column in COSTS if column.endswith("_seconds")}
    grouped = frame.groupby(keys, as_index=False, dropna=False)
    return grouped.agg(n=("seed", "count"), **means, peak_memory_mb=("peak_memory_mb", "max"))[COSTS]


def thesis_2_1(tests: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """The thesis' Table 2.1 beside the measured p-values; `verdict` is on cycles, `verdict_seeds` on seeds.

    As in the thesis, p is not corrected for the number of pairs. What is significant there and here, for the same
    strategy, or neither there nor here `agrees`. Significant there but not here is `inconclusive`: fewer or noisier
    runs do that. Significant for the other strategy, or only here, `disagrees`.
    """
    measured = tests[tests["panel"] == TABLE_2_1["name"]]
    # Friedman's test of only some of the four is another test.
    fewer = measured["strategies_n"] < len(TABLE_2_1["strategies"])
    measured = measured[~(fewer & (measured["test"] == "friedman"))]
    table = published.rename(columns={"p": "p_published"})
    for kind in BLOCKS:
        found = measured[measured["blocks"] == kind].set_index(["test", *stats.PAIR])
        found = found.reindex(pd.MultiIndex.from_frame(published[["test", *stats.PAIR]]))
        for column in ("p", "mean_difference", "blocks_n"):
            table[f"{column}_{kind}"] = found[column].to_numpy(dtype=float)
    panel = tests[tests["panel"] == TABLE_2_1["panel"]]
    table = table.assign(**{key: "; ".join(panel[key].unique()) for key in ("scale", "data")})
    table["verdict"] = [_verdict(row, "cycles") for _, row in table.iterrows()]
    table["verdict_seeds"] = [_verdict(row, "seeds") for _, row in table.iterrows()]
    return table


def _verdict(row: pd.Series, kind: str) -> str:
    p, difference = row[f"p_{kind}"], row[f"mean_difference_{kind}"]
    if pd.isna(p):
        return "not measured"
    if p >= ALPHA:
        return "inconclusive" if row["p_published"] < ALPHA else "agrees"
    leader = row["strategy_a"] if difference > 0 else row["strategy_b"]
    return "agrees" if row["p_published"] < ALPHA and row["better"] in ("", leader) else "disagrees"


def of_setting(frame: pd.DataFrame, panel: dict) -> pd.DataFrame:
    """The rows of a panel's setting, whatever their strategy."""
    return frame[(frame[SETTING] == [panel[key] for key in SETTING]).all(axis=1)]


def by_panel(frame: pd.DataFrame, panels: dict) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows each panel shows; panels that have none are left out."""
    for name, panel in panels.items():
        here = of_setting(frame, panel)
        shown = here[here["strategy"].isin(panel["strategies"])]
        if len(shown):
            yield name, shown


def _against_baseline(frame: pd.DataFrame, value: str, keys: list[str]) -> pd.DataFrame:
    """With columns `baseline` (a strategy) and `difference`: to its value in the same setting at the same keys."""
    keys = [*SETTING, *keys, "baseline"]
    names = frame["strategy"].map(lambda name: BASELINES.get(name.partition("+")[0], "random")).astype(object)
    values = frame.rename(columns={"strategy": "baseline", value: "reference"})[[*keys, "reference"]]
    frame = frame.assign(baseline=names).merge(values, on=keys, how="left")
    return frame.assign(difference=frame[value] - frame["reference"])


def _elsewhere(curves: pd.DataFrame) -> pd.Series:
    """The rows of runs that ended at another rate than the one their setting is about."""
    return curves["diverged"].astype(bool) & curves["recipe"].str.contains("+lr=", regex=False)


def _complete(curves: pd.DataFrame) -> pd.DataFrame:
    """The runs at their setting's rate that have as many cycles as any of their setting."""
    curves = curves[~_elsewhere(curves)]
    cycles = curves.groupby(RUN)["cycle"].transform("count")
    return curves[cycles == cycles.groupby([curves[key] for key in SETTING]).transform("max")]


def runs(curves: pd.DataFrame) -> pd.DataFrame:
    """One row per complete run: that of its last cycle, and the area under its curve."""
    rows = [
        {**run.iloc[-1], "area": stats.area(run["labelled"], run["test_accuracy"])}
        for _, run in _complete(curves).groupby(RUN)
    ]
    return pd.DataFrame(rows, columns=[*CURVES, "area"])


def diverged(curves: pd.DataFrame, *strategies: str) -> int:
    """How many runs of these strategies diverged."""
    mine = curves[curves["strategy"].isin(strategies)]
    return len(mine.loc[mine["diverged"].astype(bool), RUN].drop_duplicates())


def phrase(data: dict) -> str:
    """`digits, 1,300 train / 497 test, partial, 2x2 average-pooled`"""
    pool = data["average_pool"]
    marks = (", partial" if data["partial"] else "") + (f", {pool}x{pool} average-pooled" if pool > 1 else "")
    return f"{data['name']}, {data['train']:,} train / {data['test']:,} test{marks}"


def _prefixed(name: str, values: pd.Series) -> dict[str, float]:
    return {f"{name}_{key}": value for key, value in stats.describe(values).items()}
