"""Tables from made records: numbers by hand, unfinished grids, and what is refused."""

import gc
import math
import re

import jsonschema
import numpy as np
import pandas as pd
import pytest

from bench.core import config, csv
from bench.core.errors import UserError
from bench.studies import lookahead
from bench.studies.lookahead import curves as curves_module
from bench.studies.lookahead import significance, tables
from bench.studies.lookahead.curves import curves as curves_of


@pytest.fixture(autouse=True, scope="module")
def frozen():
    """statsmodels collects garbage at every call; spare it all that was imported."""
    gc.freeze()
    yield
    gc.unfreeze()


SETTING = {"dataset": "digits", "net": "wrn", "width": 16, "recipe": "l2"}
PANELS = {
    "thesis-2.2a": SETTING | {"strategies": ["random", "entropy", "margin"]},
    "thesis-A.1a": SETTING | {"strategies": ["random", "entropy", "margin"]},
    "thesis-A.1b": SETTING | {"net": "resnet18", "strategies": ["random", "entropy", "margin"]},
}


def record(strategy: str, seed: int, accuracies: list[float], **changes) -> dict:
    """A record as a run writes it; `changes` go to the cell, to the data, or to the top."""
    cell = SETTING | {"strategy": strategy, "seed": seed}
    data = {"name": "digits", "train": 1300, "test": 497, "partial": False, "checksum": "c0", "average_pool": 1}
    top = {"scale": "quick", "settings_hash": "ab12", "device": "cpu", "learning_rate": 1.25, "diverged": None}
    top |= {"only_timed": "timed=sample" in strategy}
    for part in (cell, data, top):
        part.update({key: changes.pop(key) for key in list(changes) if key in part})
    assert not changes
    cycles = [
        {"cycle": c, "labelled": 20 + 10 * c, "test_accuracy": a, "test_loss": 0.1, "train_loss": 1e-5}
        | {"train_accuracy": 1.0, "candidates": 10, "queried": [], "bought": {}, "notes": {}}
        for c, a in enumerate(accuracies)
    ]
    return {"schema": 2, "study": "lookahead", "cell": cell, "data": data, "cycles": cycles} | top


GRID = [
    record("random", 0, [0.5, 0.6]),
    record("random", 1, [0.7, 0.8]),
    record("entropy", 0, [0.6, 0.8]),
    record("entropy", 1, [0.8, 0.8]),
    record("margin", 0, [0.4, 0.7]),
]


def accuracies(record: dict) -> list[float]:
    return [cycle["test_accuracy"] for cycle in record["cycles"]]


def one(frame: pd.DataFrame, **where) -> pd.Series:
    rows = frame[np.logical_and.reduce([frame[key] == value for key, value in where.items()])]
    assert len(rows) == 1
    return rows.iloc[0]


def test_curves():
    curves = curves_of(reversed(GRID))
    assert list(curves.columns) == curves_module.CURVES
    assert len(curves) == 10
    row = one(curves, strategy="entropy", seed=0, cycle=1)
    assert (row["labelled"], row["test_accuracy"], row["train_size"], row["diverged"]) == (30, 0.8, 1300, False)
    restarted = record("random", 0, [0.5], diverged={"cycle": 0, "epoch": 3, "learning_rate": 1.25})
    assert curves_of([restarted])["diverged"].all()


def test_runs_by_hand():
    longer = [*GRID, record("entropy", 2, [0.9])]  # stopped after one of two cycles
    runs = curves_module.runs(curves_of(longer))
    assert list(runs.columns) == [*curves_module.CURVES, "area"]
    assert len(runs) == len(GRID)
    row = one(runs, strategy="entropy", seed=0)
    assert (row["cycle"], row["test_accuracy"], row["area"]) == (1, 0.8, pytest.approx(0.7))


def test_summary_by_hand():
    summary = tables.summary(curves_of(GRID), PANELS, {"thesis-2.2a": "width 16 (paper 640)"})
    assert list(summary.columns) == tables.SUMMARY
    assert set(summary["panel"]) == {"thesis-2.2a", "thesis-A.1a"}  # nothing has finished for A.1b
    row = one(summary, panel="thesis-2.2a", strategy="entropy", cycle=0)
    assert (row["n"], row["labelled"], row["device"]) == (2, 20, "cpu")
    assert row["data"] == "digits, 1,300 train / 497 test"
    assert row["accuracy_mean"] == pytest.approx(0.7)
    assert row["accuracy_sd"] == pytest.approx(0.1 * math.sqrt(2))
    assert row["accuracy_high"] - row["accuracy_mean"] == pytest.approx(12.7062047 * 0.1)  # t with 1 degree of freedom
    assert row["difference_mean"] == pytest.approx(0.1)  # +0.1 at both seeds: paired, so no spread
    assert row["difference_sd"] == pytest.approx(0)
    assert row["deviations"] == "width 16 (paper 640)"
    assert one(summary, panel="thesis-A.1a", strategy="entropy", cycle=0)["deviations"] == ""
    single = one(summary, panel="thesis-2.2a", strategy="margin", cycle=1)
    assert single["n"] == single["difference_n"] == 1
    assert single["difference_mean"] == pytest.approx(0.1)
    assert math.isnan(single["accuracy_sd"])
    assert math.isnan(single["accuracy_low"])


def test_differences_are_paired_by_seed():
    unpaired = [record("random", 0, [0.5]), record("entropy", 0, [0.6]), record("entropy", 1, [0.9])]
    row = one(tables.summary(curves_of(unpaired), PANELS), panel="thesis-2.2a", strategy="entropy")
    assert (row["n"], row["difference_n"]) == (2, 1)
    assert row["difference_mean"] == pytest.approx(0.1)
    alone = tables.summary(curves_of(unpaired[1:]), PANELS)
    assert alone["difference_mean"].isna().all()


def test_a_gp_differs_from_the_random_acquisition_of_a_gp():
    values = {"random": 0.5, "ntk": 0.6, "gp-random": 0.3, "gp": 0.35}
    curves = curves_of(record(name, seed, [value]) for name, value in values.items() for seed in range(2))
    panels = {"thesis-2.1b": SETTING | {"strategies": list(values)}}
    for frame in (tables.summary(curves, panels), tables.areas(curves, panels)):
        found = frame.set_index("strategy")
        assert found["difference_mean"].to_dict() == pytest.approx(
            {"random": 0, "ntk": 0.1, "gp-random": 0, "gp": 0.05}
        )
        assert found["baseline"].to_dict() == {n: "gp-random" if "gp" in n else "random" for n in values}
    alone = tables.areas(curves_of([record("gp", 0, [0.3]), record("random", 0, [0.5])]), panels)
    assert math.isnan(one(alone, strategy="gp")["difference_mean"])


AGAIN = {"cycle": 0, "epoch": 3, "learning_rate": 1.25}


def test_tables_count_the_runs_that_diverged():
    grid = [*GRID, record("margin", 1, [0.1, 0.1], diverged=AGAIN)]
    curves = curves_of(grid)
    areas = tables.areas(curves, PANELS)
    margin = one(areas, panel="thesis-2.2a", strategy="margin")
    assert (margin["n"], margin["diverged"]) == (2, 1)
    assert one(areas, panel="thesis-2.2a", strategy="entropy")["diverged"] == 0
    assert (
        set(significance.tests(curves, PANELS)["diverged"])
        == set(significance.ranks(curves, PANELS)["diverged"])
        == {1}
    )


def test_runs_that_diverged_at_a_rate_of_interest_are_counted_but_do_not_count():
    rated = [record("margin", seed, [0.9, 0.9], recipe="l2+lr=0.3") for seed in range(2)]
    rated.append(record("margin", 2, [0.1, 0.1], recipe="l2+lr=0.3", diverged=AGAIN))
    panels = {"thesis-A.3a-lr-0.3": SETTING | {"recipe": "l2+lr=0.3", "strategies": ["margin"]}}
    (row,) = tables.areas(curves_of(rated), panels).to_dict("records")
    assert (row["n"], row["area_mean"], row["diverged"]) == (2, pytest.approx(0.9), 1)


def test_marks_of_data_and_devices(capsys):
    marked = [
        record("random", seed, [0.5], partial=True, average_pool=2, device=device)
        for seed, device in enumerate(("cpu", "cuda"))
    ]
    summary = tables.summary(curves_of(marked), {"p": PANELS["thesis-2.2a"]})
    assert summary["data"].unique().tolist() == ["digits, 1,300 train / 497 test, partial, 2x2 average-pooled"]
    assert summary["device"].unique().tolist() == ["cpu+cuda"]
    assert "p puts together results of different devices (cpu+cuda)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"checksum": "c1"}, ["data checksum of digits", "c0 in", "c1 in digits/wrn/16/l2/entropy/7"]),
        ({"checksum": "c1", "net": "resnet18"}, ["data checksum of digits", "digits/resnet18"]),
        ({"settings_hash": "cd34"}, ["settings_hash of digits, wrn, 16, l2", "cd34 in digits/wrn/16/l2/entropy/7"]),
        ({"scale": "cpu"}, ["scale differs", "quick in", "cpu in"]),
        ({"seed": 1}, ["more than one record", "digits/wrn/16/l2/entropy/1"]),
    ],
)
def test_what_does_not_belong_together_is_refused(other, words):
    odd = record("entropy", 7, [0.5, 0.6])
    for part in (odd["cell"], odd["data"], odd):
        part.update({key: value for key, value in other.items() if key in part})
    with pytest.raises(UserError) as error:
        curves_of([*GRID, odd])
    assert all(word in str(error.value) for word in words)


def test_settings_may_differ_between_settings():
    curves_of([*GRID, record("random", 0, [0.5], net="resnet18", settings_hash="cd34")])


def test_areas_by_hand():
    longer = [*GRID, record("entropy", 2, [0.9])]  # stopped after one of two cycles
    areas = tables.areas(curves_of(longer), PANELS)
    assert list(areas.columns) == tables.AREAS
    row = one(areas, panel="thesis-A.1a", strategy="entropy")
    assert row["n"] == 2
    assert row["area_mean"] == pytest.approx((0.7 + 0.8) / 2)
    assert row["difference_mean"] == pytest.approx(((0.7 - 0.55) + (0.8 - 0.75)) / 2)
    assert tables.areas(curves_of([record("random", 0, [0.5])]), PANELS)["area_mean"].tolist() == [0.5, 0.5]


def test_tests_use_the_seeds_all_strategies_have():
    # A cycle before these, for cycle 0 is no block of its own.
    grid = [record(r["cell"]["strategy"], r["cell"]["seed"], [0.5, *accuracies(r)]) for r in GRID]
    tests = significance.tests(curves_of(grid), PANELS)
    assert list(tests.columns) == significance.TESTS
    cycles = one(tests, panel="thesis-2.2a", blocks="cycles", test="friedman")
    assert (cycles["blocks_n"], cycles["strategies_n"], cycles["seeds_n"]) == (2, 3, 1)
    assert cycles["statistic"] == pytest.approx(3)  # ranks 2 1 3 and 3 1 2: 12 / 24 * (25 + 4 + 25) - 24
    seeds = one(tests, panel="thesis-2.2a", blocks="seeds", test="friedman")
    assert math.isnan(seeds["p"])
    assert seeds["note"] == "needs 2 blocks, has 1"
    pair = one(tests, panel="thesis-2.2a", blocks="cycles", test="paired-t", strategy_a="random", strategy_b="margin")
    assert pair["mean_difference"] == pytest.approx(0)
    assert len(tests[tests["panel"] == "thesis-A.1a"]) == 2 * (1 + 3 + 3)


def test_tests_say_which_strategies_are_missing():
    tests = significance.tests(curves_of(GRID[:4]), PANELS)
    whole = one(tests, panel="thesis-2.2a", blocks="cycles", test="friedman")
    assert whole["note"] == "needs 3 strategies, has 2; no finished cell of margin"
    pair = one(tests, panel="thesis-2.2a", blocks="seeds", test="paired-t")
    assert pair["mean_difference"] == pytest.approx(-0.1)
    assert pair["p"] == pair["p_holm"] == pytest.approx(1 - 2 / math.pi * math.atan(2))  # t = -2, one degree of freedom


def test_equal_accuracies_in_another_order_stay_tied():
    grid = [
        record(s, i, [a])
        for s, values in (("random", (0.1, 0.2, 0.3)), ("entropy", (0.3, 0.2, 0.1)))
        for i, a in enumerate(values)
    ]
    tests = significance.tests(curves_of(grid), PANELS)
    seeds = one(tests, panel="thesis-2.2a", blocks="seeds", test="paired-t")
    assert seeds["mean_difference"] == pytest.approx(0, abs=1e-12)
    ranks = significance.ranks(
        curves_of([*grid, *(record("margin", i, [a]) for i, a in enumerate((0.2, 0.2, 0.2)))]), PANELS
    )
    assert one(ranks, kind="rank", strategy_a="margin")["value"] == pytest.approx(2)


def test_ranks_over_shared_strategies_and_complete_blocks():
    panels = PANELS | {"width": SETTING | {"width": 32, "strategies": ["random", "ntk"]}}
    panels["thesis-A.1a"] = SETTING | {"strategies": ["random", "ntk"]}  # ntk runs in one of the settings only
    second = [record(s, 0, [a], net="resnet18") for s, a in (("random", 0.1), ("entropy", 0.2), ("margin", 0.3))]
    ranks = significance.ranks(curves_of([*GRID, *second, record("ntk", 0, [0.9, 0.9])]), panels)
    assert list(ranks.columns) == significance.RANKS
    assert set(ranks["blocks_n"]) == {2}  # seed 1 lacks margin
    assert set(ranks["settings_n"]) == {2}
    found = ranks[ranks["kind"] == "rank"].set_index("strategy_a")["value"]
    assert found.to_dict() == {"random": 2.75, "entropy": 1.5, "margin": 1.75}  # from 2.5 1 2.5 and 3 2 1
    assert (ranks["kind"] == "nemenyi").sum() == 3


def test_costs_keep_machines_apart():
    def account(name: str, seconds: float) -> dict:
        times = {"train": seconds, "query": 1.0, "evaluate": 2.0, "total": seconds + 3}
        return meta(name, seconds=times, peak_memory_mb=10 * seconds)

    runs = [record("random", seed, [0.5]) for seed in range(3)]
    costs = tables.costs(runs, [account("big", 1.0), account("big", 3.0), account("small", 9.0)])
    assert list(costs.columns) == tables.COSTS
    row = one(costs, device_name="big")
    assert (row["n"], row["train_seconds"], row["total_seconds"], row["peak_memory_mb"]) == (2, 2, 5, 30)
    assert one(costs, device_name="small")["n"] == 1
    timed = tables.costs([*runs[:1], record("naive+timed=sample", 0, [0.5])], [account("big", 1.0)] * 2)
    assert timed["strategy"].tolist() == ["random"]


def thesis_grid(accuracy: dict[str, float], spread: float = 0.01) -> list[dict]:
    rng = np.random.default_rng(1)
    return [
        record(name, seed, [mean + 0.05 * c + spread * rng.normal() for c in range(6)])
        for name, mean in accuracy.items()
        for seed in range(6)
    ]


PUBLISHED = csv.read(tables.PUBLISHED / "thesis-2.1.csv")
TABLE_2_1 = {"thesis-2.1b": SETTING | {"strategies": ["gp", "gp-random", "infinite", "ntk", "one-step", "random"]}}


def compare(grid: list[dict]) -> pd.DataFrame:
    return significance.thesis_2_1(significance.tests(curves_of(grid), TABLE_2_1), PUBLISHED)


def test_thesis_2_1_not_measured():
    found = compare(thesis_grid({"random": 0.6}))
    assert len(found) == 7
    assert set(found["verdict"]) == set(found["verdict_seeds"]) == {"not measured"}
    assert one(found, test="friedman")["p_published"] == 0.0045


def test_thesis_2_1_verdicts():
    as_published = {"ntk": 0.65, "one-step": 0.6, "infinite": 0.6, "gp": 0.5, "random": 0.6, "gp-random": 0.5}
    found = compare(thesis_grid(as_published))
    friedman = one(found, test="friedman")
    assert friedman["verdict"] == friedman["verdict_seeds"] == "supported"
    assert friedman["blocks_n_cycles"] == 5  # of six cycles, without the first
    assert one(found, strategy_a="ntk", strategy_b="gp")["verdict"] == "supported"
    assert one(found, strategy_a="one-step", strategy_b="infinite")["verdict"] == "supported"
    assert (
        one(found, strategy_a="infinite", strategy_b="gp")["verdict"] == "not supported"
    )  # significant here, not there
    reversed_sign = compare(thesis_grid(as_published | {"ntk": 0.4}))
    assert one(reversed_sign, strategy_a="ntk", strategy_b="gp")["verdict"] == "not supported"
    some = compare(thesis_grid({"ntk": 0.65, "gp": 0.5, "infinite": 0.6}))
    assert one(some, test="friedman")["verdict"] == "not measured"  # of three methods it would be another test
    assert one(some, strategy_a="ntk", strategy_b="gp")["verdict"] == "supported"


def test_thesis_2_1_says_when_it_cannot_tell():
    """Noise that hides the published difference is no contradiction, nor is a lead that may be chance."""
    equal = {"ntk": 0.6, "one-step": 0.6, "infinite": 0.6, "gp": 0.6}
    found = compare(thesis_grid(equal, spread=0.05))
    assert (found["p_cycles"] > 0.05).all()
    assert one(found, test="friedman")["verdict"] == "inconclusive"
    pair = found["test"] == "paired-t"
    significant = found["p_published"] < 0.05
    assert set(found.loc[pair & significant, "verdict"]) == {"inconclusive"}
    assert set(found.loc[pair & ~significant, "verdict"]) == {"supported"}


def test_published():
    assert list(PUBLISHED.columns) == ["test", "strategy_a", "strategy_b", "p", "better", "source"]
    assert (PUBLISHED["source"] != "").all()
    assert PUBLISHED["better"].isin(["", *significance.TABLE_2_1["strategies"]]).all()  # empty, not NaN
    with pytest.raises(UserError, match=r"thesis-21\.csv is missing"):
        csv.read(tables.PUBLISHED / "thesis-21.csv")


@pytest.mark.parametrize("records", [[], GRID[:1]], ids=["nothing", "one cell"])
def test_every_table_of_a_grid_hardly_begun(records, tmp_path):
    curves = curves_of(records)
    for make in (tables.summary, tables.areas, significance.tests, significance.ranks):
        frame = make(curves, PANELS | TABLE_2_1)
        csv.write(frame, tmp_path / "table.csv")
        assert len(pd.read_csv(tmp_path / "table.csv")) == len(frame)
    assert set(compare(records)["verdict"]) == {"not measured"}


def test_write_is_stable_and_whole(tmp_path):
    curves = curves_of(GRID)
    csv.write(curves, tmp_path / "new" / "a.csv")
    csv.write(curves.sample(frac=1, random_state=0), tmp_path / "new" / "b.csv")
    first, second = ((tmp_path / "new" / name).read_bytes() for name in ("a.csv", "b.csv"))
    assert first == second
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["a.csv", "b.csv"]


def test_numbers_have_ten_digits(tmp_path):
    """Also next to a panel that is too small for any test."""
    curves = curves_of(thesis_grid({"random": 0.6, "entropy": 0.7, "margin": 0.65}))
    for make in (tables.summary, tables.areas, significance.tests, significance.ranks):
        csv.write(make(curves, PANELS | TABLE_2_1), tmp_path / "table.csv")
        assert not re.search(r"\d\.\d{17}", (tmp_path / "table.csv").read_text())


def meta(name: str = "big", **changes) -> dict:
    """The account beside a record."""
    seconds = {"train": 1.0, "query": 1.0, "evaluate": 2.0, "total": 4.0}
    rest = {"seconds_per_step": {"query": [1.0]}, "peak_memory_mb": 10, "threads": 1}
    return {"device": {"kind": "cpu", "name": name}, "seconds": seconds} | rest | changes


SAMPLE = "naive+timed=sample"
CONFIG = config.check(
    {
        "scale": "made",
        "lookahead": {
            "seeds": [0, 1],
            "panels": {
                "thesis-2.1a": SETTING | {"strategies": [SAMPLE, "random", "entropy"]},
                "thesis-A.1a": SETTING | {"strategies": ["random", "entropy", "margin"]},
            },
        },
    },
    "tests",
)


def test_a_record_is_one_as_runs_write_it():
    for each in (*GRID, record(SAMPLE, 0, [0.5])):
        jsonschema.validate(each | {"initial": [], "parameters": 9}, lookahead.RECORD)


def test_all_tables_together(tmp_path):
    timed = [record(SAMPLE, seed, [0.5, 0.5]) for seed in range(2)]
    for each in timed:
        each["cycles"][0]["notes"] = {"scored": 4, "candidates": 400}
    records = [each | {"scale": "made"} for each in (*GRID, *timed)]
    frames = tables.tables(records, [meta() for _ in records], CONFIG)
    assert set(frames) == set(lookahead.TABLES)
    curves = curves_of(records)
    pd.testing.assert_frame_equal(frames["lookahead-curves"], curves)
    pd.testing.assert_frame_equal(frames["lookahead-runs"], curves_module.runs(curves))
    pd.testing.assert_frame_equal(frames["lookahead-areas"], tables.areas(curves, CONFIG["lookahead"]["panels"]))
    for table in ("summary", "areas", "tests", "ranks", "costs"):  # what was only timed is in none of them
        assert SAMPLE not in frames[f"lookahead-{table}"].to_csv()
    assert one(frames["lookahead-times"], strategy=SAMPLE)["seconds_mean"] == 100
    assert set(frames["lookahead-claims"]["scale"]) == set(frames["lookahead-departures"]["scale"]) == {"made"}
    for name, frame in frames.items():
        csv.write(frame, tmp_path / f"{name}.csv")
        again = csv.read(tmp_path / f"{name}.csv")
        assert list(again.columns) == list(frame.columns)
        assert len(again) == len(frame)


def test_departures_are_a_table_and_words_of_summaries():
    frames = tables.tables([each | {"scale": "made"} for each in GRID], [meta() for _ in GRID], CONFIG)
    found = frames["lookahead-departures"]
    assert list(found.columns) == tables.DEPARTURES
    row = one(found, panel="thesis-A.1a", what="width")
    assert (row["here"], row["paper"]) == ("16", "640")
    assert one(found, panel="thesis-A.1a", what="dataset")["paper"] == "mnist"
    words = frames["lookahead-summary"].set_index("panel")["deviations"]["thesis-A.1a"].iloc[0]
    assert "dataset digits (paper mnist)" in words
    assert "width 16 (paper 640)" in words


def test_read_keeps_empty_text_empty_and_missing_numbers_missing(tmp_path):
    csv.write(pd.DataFrame({"name": ["a", ""], "value": [1.5, math.nan]}), tmp_path / "x.csv")
    again = csv.read(tmp_path / "x.csv").set_index("name")["value"]
    assert again["a"] == 1.5
    assert math.isnan(again[""])
    with pytest.raises(UserError, match=r"y\.csv is missing"):
        csv.read(tmp_path / "y.csv")


def test_words_stay_words(tmp_path):
    frame = pd.DataFrame({"claim": ["2.1", "2.10"], "here": ["None", "3"], "panel_b": ["", ""], "n": [1, 2]})
    csv.write(frame.assign(p=math.nan, partial=[True, False]), tmp_path / "x.csv")
    again = csv.read(tmp_path / "x.csv")
    assert again["claim"].tolist() == ["2.1", "2.10"]
    assert again["here"].tolist() == ["None", "3"]
    assert again["panel_b"].tolist() == ["", ""]
    assert again["n"].tolist() == [1, 2]
    assert again["p"].isna().all()
    assert again["partial"].tolist() == [True, False]
