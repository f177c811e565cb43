"""Tables and claims of the NPC study, from made records: numbers by hand, unfinished grids, known answers."""

import math

import jsonschema
import numpy as np
import pandas as pd
import pytest

from bench.core import config, csv, records, study
from bench.core.errors import UserError
from bench.report import claims as ledger
from bench.studies import npc
from bench.studies.npc import claims, curves, tables
from bench.studies.npc.batches import MEASURES
from bench.studies.npc.curves import curves as curves_of

MARGIN, PAPER = "margin+map=softmax", "npc+variant=paper"
PLACE = {"dataset": "digits", "net": "wrn-small", "width": 64, "recipe": "fixmatch-darp", "mode": "steps"}
WEAK, ALONE = PLACE | {"recipe": "supervised-weak"}, PLACE | {"recipe": "fixmatch"}
NARROW, ZERO, SINGLE = PLACE | {"width": 8}, PLACE | {"mode": "zero-40"}, PLACE | {"mode": "single-40"}
GIVEN = {
    "npc-table-1": PLACE | {"strategies": ["random", MARGIN, "albl", "badge", "npc"]},
    "npc-table-2": NARROW | {"strategies": ["random", "npc", PAPER]},
    "npc-table-3-zero-40": ZERO | {"strategies": ["random", "badge", "npc"]},
    "npc-table-3-single-40": SINGLE | {"strategies": ["badge", "npc"]},
    "controls-fixmatch": ALONE | {"strategies": ["random"]},
    "controls-supervised-weak": WEAK | {"strategies": ["random", MARGIN, "badge", "npc"]},
}
CONFIG = config.check({"scale": "made", "npc": {"seeds": [0, 1, 2], "panels": GIVEN}}, "tests")
PANELS = npc.panels(CONFIG)
CLAIMED = csv.read(study.folder("npc") / "claims.csv")
PUBLISHED = csv.read(tables.PUBLISHED)


def record(strategy: str, seed: int, accuracies: list[float], place: dict | None = None, **changes) -> dict:
    """A record as a run writes it: 10 labels at first, 20 in a query. `queries`: what differs in each cycle."""
    place, queries = place or PLACE, changes.pop("queries", [{}] * len(accuracies))
    buys, first = place["recipe"] == "fixmatch-darp" and place["mode"] != "initial", 10
    if place["mode"].startswith("zero-"):
        first = 0
    cycles = []
    for number, accuracy in enumerate(accuracies):
        labelled = {"steps": 30 + 20 * number, "initial": 10}.get(place["mode"], 40)
        if not buys and place["mode"] == "steps":
            labelled -= 20
        images = list(range(1000 * seed + 20 * number, 1000 * seed + 20 * number + 20))
        about = {"classes": [2] * 10, "wrong": 0.5, "wrong_of_all": 0.25, "distance": 1.5, "margin": 0.75}
        cycles.append(
            {"labelled": labelled, "test_accuracy": accuracy, "last_accuracy": accuracy, "train_accuracy": 1.0}
            | {"pool_accuracy": 0.5, "sure": 0.4, "sure_accuracy": 0.75, "predicted": [3] * 10}
            | {"queried": images if buys else [], "bought": about if buys else {}, "notes": {}, "criteria": {}}
            | queries[number]
        )
    data = {"name": "digits", "train": 1300, "test": 497, "partial": False, "checksum": "c0", "average_pool": 1}
    top = {
        "scale": "made",
        "settings": {"protocol": {"test": None}},
        "settings_hash": "ab12",
        "device": "cpu",
        "initial": list(range(-first, 0)),
    }
    top |= {"parameters": 99, "pool": 1300}
    for part in (data, top):
        part.update({key: changes.pop(key) for key in list(changes) if key in part})
    cell = place | {"strategy": strategy, "seed": seed}
    return {"schema": records.VERSION, "study": "npc", "cell": cell, "data": data, "cycles": cycles} | top | changes


def initial(*accuracies: float, median: int, place: dict = PLACE) -> dict:
    return record("random", 0, list(accuracies), place | {"mode": "initial"}, median=median, weights="")


GRID = [
    record("random", 0, [0.5, 0.6, 0.7]),
    record("random", 1, [0.6, 0.7, 0.8]),
    record("npc", 0, [0.6, 0.8, 0.9]),
    record("npc", 1, [0.8, 0.8, 0.9]),
    record("badge", 0, [0.4, 0.4, 0.4]),
    initial(0.2, 0.3, 0.25, median=2),
]


def one(frame: pd.DataFrame, **where) -> pd.Series:
    rows = frame[np.logical_and.reduce([frame[key] == value for key, value in where.items()])]
    assert len(rows) == 1
    return rows.iloc[0]


def buying(strategy: str, seed: int, *images: list[int], place: dict = PLACE) -> dict:
    """A record that bought these images, query by query."""
    return record(strategy, seed, [0.5] * len(images), place, queries=[{"queried": each} for each in images])


def judging(said: dict[str, list[float]], seed: int = 0, strategy: str = "random") -> dict:
    """A record of one query whose random batches have these measures; all others are the batch's number."""
    size = len(next(iter(said.values())))
    criteria = {name: [float(i) for i in range(size)] for name in MEASURES} | said
    return record(strategy, seed, [0.5], queries=[{"criteria": criteria}])


def test_a_record_is_one_as_runs_write_it():
    for each in (*GRID, record("npc", 0, [0.5], ZERO), record("npc", 0, [0.5, 0.6], WEAK)):
        jsonschema.validate(each, records.COMMON)
        jsonschema.validate(each, npc.RECORD)
    assert [done["labelled"] for done in GRID[0]["cycles"]] == [30, 50, 70]


# --- curves ---


def test_data_say_how_they_are_reduced():
    whole = record("npc", 0, [0.5])
    assert curves.data_of(whole) == "digits, 1,300 train / 497 test"
    part = whole | {"pool": 400, "settings": {"protocol": {"test": 100}}}
    assert curves.data_of(part) == "digits, 1,300 train / 497 test, pool of 400, tested on 100"


def test_curves():
    curve = curves_of(reversed(GRID))
    assert list(curve.columns) == curves.CURVES
    assert len(curve) == 5 * 3 + 3
    row = one(curve, strategy="npc", seed=0, labelled=50)
    assert (row["test_accuracy"], row["pool_accuracy"], row["device"], row["median"]) == (0.8, 0.5, "cpu", False)
    assert row["predicted_balance"] == pytest.approx(1)
    assert curve[curve["mode"] == "initial"]["median"].tolist() == [False, False, True]


def test_balance_by_hand():
    assert curves.balance([5, 5, 0, 0]) == pytest.approx(0.5)  # log 2 / log 4
    assert curves.balance([3, 3, 3]) == pytest.approx(1)
    assert curves.balance([7, 0, 0]) == 0


@pytest.mark.parametrize("what", ["scale", "device"])
def test_records_that_do_not_belong_together_are_refused(what):
    with pytest.raises(UserError, match=f"records of different {what}s, .*odd"):
        curves_of([*GRID, record("random", 2, [0.5], **{what: "odd"})])


def test_a_panel_shows_its_own_trials_strategies_and_setting():
    curve = curves_of([*GRID, record("coreset", 0, [0.5]), record("npc", 7, [0.5]), record("npc", 0, [0.5], NARROW)])
    shown = curves.of_place(curve, PANELS["npc-table-1"])
    assert set(zip(shown["strategy"], shown["seed"], strict=True)) == {
        *(("random", 0), ("random", 1), ("npc", 0), ("npc", 1), ("badge", 0))
    }
    assert {name for name, _, _ in curves.by_panel(curve, PANELS)} == {"npc-table-1", "npc-table-2"}


def test_accuracy_by_trial_is_at_a_count_or_the_mean_over_all():
    curve = curves_of(GRID)
    assert curves.by_trial(curve, PANELS["npc-table-1"], "npc", 30).to_dict() == {0: 0.6, 1: 0.8}
    everywhere = curves.by_trial(curve, PANELS["npc-table-1"], "npc", None).to_dict()
    assert everywhere == pytest.approx({0: 2.3 / 3, 1: 2.5 / 3})


# --- summary and published ---


def summed(runs: list[dict]) -> pd.DataFrame:
    return tables.summary(curves_of(runs), PANELS, CONFIG, {"npc-table-1": "width 64 (paper 2)"})


def test_summary_by_hand():
    summary = summed(GRID)
    assert list(summary.columns) == tables.SUMMARY
    assert len(summary) == 1 + 3 * 3
    row = one(summary, panel="npc-table-1", strategy="npc", labelled=30)
    assert (row["n"], row["difference_n"], row["device"]) == (2, 2, "cpu")
    assert row["data"] == "digits, 1,300 train / 497 test"
    assert row["accuracy_mean"] == pytest.approx(0.7)
    assert row["accuracy_sd"] == pytest.approx(0.1 * math.sqrt(2))
    assert row["accuracy_high"] - row["accuracy_mean"] == pytest.approx(12.7062047 * 0.1)  # t with 1 degree of freedom
    assert row["difference_mean"] == pytest.approx(0.15)  # 0.1 and 0.2 in the two trials
    assert row["difference_sd"] == pytest.approx(0.05 * math.sqrt(2))
    assert (row["pool_accuracy"], row["sure"], row["sure_accuracy"], row["train_accuracy"]) == (0.5, 0.4, 0.75, 1)
    assert row["deviations"] == "width 64 (paper 2)"
    lone = one(summary, panel="npc-table-1", strategy="badge", labelled=70)
    assert (lone["n"], lone["difference_mean"]) == (1, pytest.approx(-0.3))
    assert math.isnan(lone["accuracy_sd"])


def test_the_initial_row_is_the_median_training_with_the_spread_of_all():
    row = one(summed(GRID), panel="npc-table-1", strategy="initial")
    assert (row["labelled"], row["n"], row["accuracy_mean"]) == (10, 3, 0.25)
    assert row["accuracy_sd"] == pytest.approx(0.05)  # of 0.2, 0.3 and 0.25
    assert row["mode"] == "steps"
    assert row["difference_n"] == 0
    assert math.isnan(row["difference_mean"])


def test_only_panels_that_start_from_an_initial_model_have_its_row():
    runs = [record("npc", 0, [0.5], place) for place in (ZERO, SINGLE, WEAK)]
    summary = summed([*GRID, *runs])
    assert set(summary[summary["strategy"] == "initial"]["panel"]) == {"npc-table-1", "npc-table-3-single-40"}
    assert set(summary["panel"]) == {
        *("npc-table-1", "npc-table-3-zero-40", "npc-table-3-single-40", "controls-supervised-weak")
    }


def test_differences_from_random_are_paired_by_trial_and_count():
    row = one(summed([*GRID[1:2], *GRID[2:4]]), panel="npc-table-1", strategy="npc", labelled=50)
    assert (row["n"], row["difference_n"], row["difference_mean"]) == (2, 1, pytest.approx(0.1))
    assert summed(GRID[2:4])["difference_mean"].isna().all()


def test_every_published_number_is_in_the_table_once():
    found = tables.published(summed(GRID), PUBLISHED, "made")
    assert list(found.columns) == tables.PRINTED
    keys = ["panel", "strategy", "labelled", "published_mean", "published_sd", "source"]
    theirs = PUBLISHED.rename(columns={"mean": "published_mean", "sd": "published_sd"})
    pd.testing.assert_frame_equal(found[keys], theirs[keys])
    assert set(found["scale"]) == {"made"}


def test_what_was_measured_stands_beside_what_is_published():
    found = tables.published(summed(GRID), PUBLISHED, "made")
    row = one(found, panel="npc-table-1", strategy="npc", labelled=30)
    assert (row["published_mean"], row["published_sd"], row["n"]) == (85.09, 9.61, 2)
    assert row["mean"] == pytest.approx(70)
    assert row["sd"] == pytest.approx(10 * math.sqrt(2))
    assert row["high"] - row["mean"] == pytest.approx(127.062047)
    assert row["data"] == "digits, 1,300 train / 497 test"
    start = one(found, panel="npc-table-1", strategy="initial", labelled=10)
    assert (start["published_mean"], start["mean"], start["n"]) == (57.64, 25, 3)
    missing = one(found, panel="npc-table-2", strategy=PAPER, labelled=300)
    assert (missing["n"], missing["data"]) == (0, "")
    assert math.isnan(missing["mean"])


def test_published_numbers_are_of_panels_and_strategies_of_the_paper():
    paper = npc.panels(config.check({"scale": "paper"}, "tests"))
    assert list(PUBLISHED.columns) == ["table", "panel", "strategy", "labelled", "mean", "sd", "source"]
    assert not PUBLISHED.duplicated(["panel", "strategy", "labelled"]).any()
    assert (PUBLISHED["source"] != "").all()
    assert PUBLISHED["mean"].between(0, 100).all()
    for row in PUBLISHED.to_dict("records"):
        panel = paper[row["panel"]]
        assert row["strategy"] in (*panel["strategies"], "initial")
        settings = npc.of_setting(
            config.check({"scale": "paper"}, "tests"), panel["dataset"], panel["recipe"], panel["mode"]
        )
        first = 0 if panel["mode"].startswith("zero") else {"cifar10": 10, "cifar100": 100}[panel["dataset"]]
        counts = [first, *(first + np.cumsum(settings["queries"])).tolist()]
        assert row["labelled"] in (counts[:1] if row["strategy"] == "initial" else counts[1:])
    assert set(PUBLISHED["panel"]) == {name for name in paper if name.startswith("npc-table-")}


# --- differences, queries, overlap ---


def test_differences_by_hand():
    found = tables.differences(curves_of(GRID), PANELS)
    assert list(found.columns) == tables.DIFFERENCES
    assert len(found) == 3 * 3  # three pairs at three counts, in the panel's order
    row = one(found, labelled=30, strategy_a="random", strategy_b="npc")
    assert (row["n"], row["mean"]) == (2, pytest.approx(-0.15))
    assert row["trials_needed"] == "4"  # 0.0707 t / sqrt(n) < 0.15: of 3 trials 0.176, of 4 0.113
    lone = one(found, labelled=70, strategy_a="badge", strategy_b="npc")
    assert (lone["n"], lone["mean"], lone["trials_needed"]) == (1, pytest.approx(-0.5), "")
    assert found[["strategy_a", "strategy_b"]].drop_duplicates().to_numpy().tolist() == [
        *(["random", "badge"], ["random", "npc"], ["badge", "npc"])
    ]


def test_queries_by_hand():
    notes = {"rank": 9, "score": 0.5, "tied": 3, "rounding": False, "weights": [1, 2]}
    about = {"classes": [10, 10, *[0] * 8], "wrong": 0.75, "wrong_of_all": 0.5, "distance": None, "margin": 0.1}
    run = record("npc", 1, [0.5, 0.6], queries=[{}, {"notes": notes, "bought": about}])
    found = tables.queries([run, initial(0.2, median=0), record("npc", 1, [0.5, 0.6], WEAK)])
    assert list(found.columns) == tables.QUERIES
    assert found["step"].tolist() == [0, 1]
    assert found["labelled"].tolist() == [30, 50]
    first, second = found.to_dict("records")
    assert (first["balance"], first["classes"], first["size"]) == (pytest.approx(1), 10, 20)
    assert (first["wrong"], first["wrong_of_all"], first["distance"], first["margin"]) == (0.5, 0.25, 1.5, 0.75)
    assert second["balance"] == pytest.approx(math.log(2) / math.log(10))
    assert (second["classes"], second["rank"], second["score"], second["tied"]) == (2, 9, 0.5, 3)
    assert second["rounding"] is False
    assert math.isnan(second["distance"])
    assert second["queried"] == " ".join(map(str, range(1020, 1040)))


def test_a_random_network_s_labels_are_counted_from_zero():
    images = list(range(40))
    run = record("npc", 0, [0.5], ZERO, queries=[{"queried": images}])
    assert tables.queries([run])["labelled"].tolist() == [40]


def test_overlap_by_hand():
    """All trials together; a strategy beside itself, the mean over pairs of trials; the initial ten left out or not."""
    runs = [
        *(buying("npc", 0, [1, 2], [3, 4]), buying("npc", 1, [5, 6], [1, 2])),
        *(buying("badge", 0, [1, 7], [3, 8]), buying("badge", 1, [5, 9], [2, 4])),
        *(buying("random", 0, [20, 21], [22, 23]), buying("random", 9, [1, 2], [3, 4])),  # 9: no trial of the panel
    ]
    found = tables.overlap(runs, PANELS)
    assert list(found.columns) == tables.OVERLAP
    assert set(found["panel"]) == {"npc-table-1"}
    assert len(found) == 6 * 2
    pair = {"strategy_a": "badge", "strategy_b": "npc"}
    row = one(found, labelled=12, **pair)
    assert row["n"] == 2
    assert row["iou"] == pytest.approx(100 * 2 / 6)  # 1 5 of 1 2 5 6 7 9
    assert row["iou_with_initial"] == pytest.approx(100 * 12 / 16)
    row = one(found, labelled=14, **pair)
    assert row["iou"] == pytest.approx(100 * 5 / 9)  # 1 2 3 4 5 of 1 to 9
    itself = one(found, labelled=14, strategy_a="npc", strategy_b="npc")
    assert itself["iou"] == pytest.approx(100 * 2 / 6)  # 1 2 of 1 2 3 4 5 6
    assert itself["iou_with_initial"] == pytest.approx(100 * 12 / 16)
    assert one(found, labelled=12, strategy_a="random", strategy_b="npc")["iou"] == 0
    lone = one(found, labelled=12, strategy_a="random", strategy_b="random")
    assert lone["n"] == 1
    assert math.isnan(lone["iou"])


def test_overlap_of_trials_that_another_panel_has():
    """Of a panel's strategies only other trials are finished, which a panel of the same setting shows."""
    panels = {"setting": PANELS["npc-table-1"] | {"seeds": [5]}, "npc-table-1": PANELS["npc-table-1"]}
    found = tables.overlap([buying("npc", 0, [1, 2]), buying("badge", 0, [1, 3]), buying("random", 5, [4, 5])], panels)
    both = found[found["strategy_a"] != found["strategy_b"]]
    assert both[["panel", "strategy_a", "strategy_b", "iou"]].to_numpy().tolist() == [
        ["npc-table-1", "badge", "npc", pytest.approx(100 / 3)]
    ]


def test_rows_of_queries_name_the_panels_that_show_them():
    panels = {"setting": PANELS["npc-table-1"] | {"seeds": [5]}, "npc-table-1": PANELS["npc-table-1"]}
    runs = [buying("npc", 0, [1]), buying("npc", 5, [1]), buying("npc", 9, [1])]
    assert tables.placed(tables.queries(runs), panels)["panels"].tolist() == ["npc-table-1", "setting", ""]


# --- criteria and rankings ---


@pytest.mark.filterwarnings("error")  # of scipy, had it been asked for the order of equal numbers
def test_criteria_by_hand():
    run = judging(
        {"lambda_min": [0.0] * 4, "nonzero": [1.0, 2.0, 3.0, 4.0], "logdet": [1.0, 3.0, 2.0, 4.0]}
        | {"coverage": [4.0, 3.0, 2.0, 1.0], "uncertain": [1.0, 2.0, 4.0, 3.0], "wrong": [0.5] * 4}
        | {"balance": [1.0, 1.0, 2.0, 2.0]},
        seed=1,
    )
    found = tables.criteria([run, *GRID])
    assert list(found.columns) == tables.FOUND
    assert len(found) == 3 * 4
    assert set(found["labelled"]) == {30}
    assert set(found["batches"]) == {4}
    values = found.set_index(["criterion", "outcome"])["correlation"]
    assert values["nonzero", "coverage"] == pytest.approx(-1)
    assert values["nonzero", "uncertain"] == pytest.approx(0.8)  # 1 - 6 (1 + 1) / (4 (16 - 1))
    assert values["logdet", "coverage"] == pytest.approx(-0.8)
    assert values["nonzero", "balance"] == pytest.approx(4 / math.sqrt(20))  # of ranks 1 2 3 4 and 1.5 1.5 3.5 3.5
    assert values["lambda_min"].isna().all()  # beyond the rank: no order
    assert math.isnan(values["nonzero", "wrong"])
    assert values.loc["logdet"].drop("wrong").notna().all()


def test_rankings_by_hand():
    """Gains over random in the panel that bought the labels, 0.2 and -0.1, and there, -0.1 and 0.1: turned round."""
    here = {"random": [0.5, 0.6], "badge": [0.4, 0.5], "npc": [0.7, 0.8]}
    there = {"random": [0.3, 0.3], "badge": [0.4, 0.4], "npc": [0.2, 0.2]}
    runs = [record(name, seed, [value]) for name, values in here.items() for seed, value in enumerate(values)]
    runs += [
        record(name, seed, [0.1, value], WEAK) for name, values in there.items() for seed, value in enumerate(values)
    ]
    found = tables.rankings(curves_of(runs), PANELS, CONFIG)
    assert list(found.columns) == tables.RANKINGS
    assert set(zip(found["panel"], found["against"], found["labelled"], strict=True)) == {
        ("controls-supervised-weak", "fixmatch-darp", 30)  # at 10 labels there is no training with the other recipe
    }
    assert found["strategy"].tolist() == ["random", "badge", "npc"]
    row = one(found, strategy="badge")
    assert (row["n"], row["gain_here"], row["gain_there"]) == (2, pytest.approx(-0.1), pytest.approx(0.1))
    assert row["change"] == pytest.approx(-0.2)
    assert (row["rank_here"], row["rank_there"]) == (3, 1)
    row = one(found, strategy="npc")
    assert (row["change"], row["rank_here"], row["rank_there"]) == (pytest.approx(0.3), 1, 3)
    assert one(found, strategy="random")["change"] == 0
    assert set(found["tau"]) == {-1}


def test_rankings_have_an_interval_over_trials_and_no_tau_of_two():
    here = [record("random", seed, [0.5]) for seed in (0, 1)] + [record("npc", 0, [0.6]), record("npc", 1, [0.8])]
    there = [record(name, seed, [0.1, 0.3], WEAK) for name in ("random", "npc") for seed in (0, 1)]
    found = tables.rankings(curves_of([*here, *there]), PANELS, CONFIG)
    row = one(found, strategy="npc")
    assert row["change"] == pytest.approx(0.2)
    assert row["high"] - row["change"] == pytest.approx(12.7062047 * 0.1)
    assert math.isnan(row["tau"])
    assert tables.rankings(curves_of([*here, *there[2:]]), PANELS, CONFIG).empty  # nothing without random


# --- all of them ---


def whole() -> list[dict]:
    """Something for every panel, which all tables say something of."""
    counts = {"random": 0.0, MARGIN: 0.02, "albl": 0.01, "badge": -0.1, "npc": 0.05, PAPER: 0.0}
    runs = [initial(0.2, 0.3, 0.25, median=2), initial(0.1, 0.2, 0.15, median=2, place=NARROW)]
    for panel in GIVEN.values():
        place = {axis: panel[axis] for axis in PLACE}
        trained = 1 if place["mode"] != "steps" else 4 if place["recipe"] != "fixmatch-darp" else 3
        for strategy in panel["strategies"]:
            for seed in (0, 1, 2):
                values = [0.5 + counts[strategy] + 0.05 * number + 0.01 * seed for number in range(trained)]
                runs.append(record(strategy, seed, values, place))
    criteria = {name: [float((i * (number + 2)) % 11) for i in range(6)] for number, name in enumerate(MEASURES)}
    for run in runs:
        for done in run["cycles"]:
            if run["cell"]["strategy"] == "random" and done["queried"]:
                done["criteria"] = criteria
            if run["cell"]["strategy"].startswith("npc") and done["queried"]:
                notes = {"rank": run["cell"]["width"] + 1, "score": 0.1, "tied": 1}
                done["notes"] = notes | {"rounding": run["cell"]["strategy"] == PAPER}
    return runs


def frames_of(runs: list[dict]) -> dict[str, pd.DataFrame]:
    return tables.tables(runs, [{} for _ in runs], CONFIG)


def test_all_tables_together(tmp_path):
    frames = frames_of(whole())
    assert list(frames) == list(npc.TABLES)
    for name, frame in frames.items():
        assert len(frame), name
        assert set(frame["scale"]) == {"made"}
        csv.write(frame, tmp_path / f"{name}.csv")
        again = csv.read(tmp_path / f"{name}.csv")
        assert list(again.columns) == list(frame.columns)
        assert len(again) == len(frame)


@pytest.mark.parametrize(
    "runs",
    [
        [],
        GRID[:1],
        [record("random", 0, [0.5], NARROW)],
        [record("npc", 0, [0.5], WEAK)],
        [initial(0.2, 0.3, median=0)],
        [record("badge", 0, [0.5], ZERO)],
    ],
    ids=["nothing", "one cell", "no query of npc", "a control", "the initial model", "without initial labels"],
)
def test_every_table_of_a_grid_hardly_begun(runs, tmp_path):
    frames = frames_of(runs)
    assert list(frames) == list(npc.TABLES)
    assert len(frames["npc-published"]) == len(PUBLISHED)
    assert set(frames["npc-claims"]["claim"]) == set(CLAIMED["claim"])
    for name, frame in frames.items():
        csv.write(frame, tmp_path / f"{name}.csv")
        assert len(csv.read(tmp_path / f"{name}.csv")) == len(frame)


def test_departures_name_what_differs_and_the_paper_s_tables_have_none():
    said = study.texts(npc.departures(CONFIG))
    for words in ("dataset digits (paper cifar10)", "net wrn-small (paper wrn-28)", "width 64 (paper 2)"):
        assert words in said["npc-table-1"]
    assert "without badge" in said["npc-table-2"]
    assert "without random" in said["npc-table-3-single-40"]
    assert said["controls-fixmatch"].startswith("a panel of this suite's own")
    paper = npc.departures(config.check({"scale": "paper"}, "tests"))
    assert {each.what for each in paper} == {"a panel of this suite's own"}
    assert not any(each.panel.startswith("npc-table-") for each in paper)


# --- claims ---


def claim_of(name: str, **changes) -> dict:
    return one(CLAIMED, claim=name).to_dict() | changes


def verdicts(claim: dict, runs: list[dict]) -> pd.DataFrame:
    """What the rule says of a claim, given these records."""
    frames = {"npc-curves": curves_of(runs), "npc-queries": tables.queries(runs), "npc-criteria": tables.criteria(runs)}
    return ledger.judged("npc", pd.DataFrame([claim]), claims.measure, frames, CONFIG)


def verdict(name: str, runs: list[dict], **changes) -> pd.Series:
    (row,) = (row for _, row in verdicts(claim_of(name, **changes), runs).iterrows())
    return row


def trials(strategy: str, *values: list[float], place: dict = PLACE) -> list[dict]:
    """Records of a strategy, one for each trial's accuracies."""
    return [record(strategy, seed, each, place) for seed, each in enumerate(values)]


def test_every_claim_has_a_kind_and_a_range():
    assert set(CLAIMED["quantity"]) == {*claims.KINDS, "printed"}
    assert CLAIMED["claim"].is_unique
    assert (CLAIMED["holds_above"].notna() | CLAIMED["holds_below"].notna()).all()
    assert set(CLAIMED[CLAIMED["quantity"] == "difference"]["labels"]) == {
        *("each", "all", "each beyond", "all beyond")
    }
    correlations = CLAIMED[CLAIMED["quantity"] == "correlation"]
    assert set(correlations["a"]) <= set(tables.CRITERIA)
    assert set(correlations["b"]) <= set(tables.OUTCOMES)


def test_claims_are_about_panels_and_strategies_of_the_paper_s_scale():
    panels = npc.panels(config.check({"scale": "paper"}, "tests"))
    for claim in CLAIMED[~CLAIMED["quantity"].isin(["printed"])].to_dict("records"):
        pairs = claims._pairs(claim, panels)
        assert pairs, claim["claim"]
        if claim["quantity"] == "correlation":
            continue
        for name, other in pairs:
            assert claim["a"] in panels[name]["strategies"], claim["claim"]
            if claim["b"] not in ("", "best"):
                assert claim["b"] in panels[other if claim["quantity"] == "difference" else name]["strategies"]


def test_difference_at_each_count():
    runs = [*trials("npc", [0.6, 0.5], [0.8, 0.6]), *trials("random", [0.5, 0.5], [0.6, 0.6])]
    found = verdicts(claim_of("N01-passive"), runs)
    assert found["setting"].tolist() == ["npc-table-1, 30 labels", "npc-table-1, 50 labels"]
    assert found["measured"].tolist() == pytest.approx([0.15, 0])
    assert found["verdict"].tolist() == ["inconclusive", "not supported"]  # 0.1 and 0.2; nothing at all
    assert found["arms"].tolist() == ["`npc` minus `random`"] * 2
    assert found["data"].tolist() == ["digits, 1,300 train / 497 test"] * 2
    assert "dataset digits (paper cifar10)" in found["departures"].iloc[0]


def test_difference_is_paired_so_that_a_constant_one_is_certain():
    runs = [*trials("npc", [0.61], [0.81], [0.31]), *trials("random", [0.6], [0.8], [0.3])]
    row = verdict("N01-passive", runs)
    assert (row["verdict"], row["measured"], row["n"]) == ("supported", pytest.approx(0.01), 3)
    assert verdict("N01-passive", runs[:4])["n"] == 1


def test_difference_from_the_best_other_strategy():
    """Margin is best at 30 labels, badge at 50, and margin over both."""
    runs = [
        *(trials("npc", [0.7, 0.7], [0.72, 0.7]) + trials("random", [0.1, 0.1], [0.1, 0.1])),
        *(trials(MARGIN, [0.9, 0.6], [0.92, 0.6]) + trials("badge", [0.3, 0.65], [0.32, 0.65])),
    ]
    found = verdicts(claim_of("N02-competitive"), runs)
    assert found["arms"].tolist() == [f"`npc` minus `{MARGIN}`", "`npc` minus `badge`"]
    assert found["measured"].tolist() == pytest.approx([-0.2, 0.05])
    assert found["verdict"].tolist() == ["not supported", "supported"]
    row = verdict("N03-best", runs)
    assert (row["arms"], row["measured"]) == (f"`npc` minus `{MARGIN}`", pytest.approx(0.7 - 0.75))
    assert "`random`" in row["note"]


def test_difference_between_two_panels_goes_by_the_end_of_their_names():
    runs = [*trials("npc", [0.6], [0.7], place=ZERO), *trials("npc", [0.59], [0.7], place=SINGLE)]
    row = verdict("N10-unaffected", runs)
    assert row["setting"] == "npc-table-3-zero-40 and npc-table-3-single-40, 40 labels"
    assert row["arms"] == "`npc` in the first minus in the second"
    assert row["measured"] == pytest.approx(0.005)
    panels = dict.fromkeys(["z-40", "z-60", "s-40", "s-60", "other-60"])
    pairs = claims._pairs({"panel": "z-*", "panel_b": "s-*"}, panels)
    assert pairs == [("z-40", "s-40"), ("z-60", "s-60")]
    assert claims._pairs({"panel": "z-40", "panel_b": "s-*"}, panels) == [("z-40", "s-40"), ("z-40", "s-60")]
    assert claims._pairs({"panel": "s-*", "panel_b": ""}, panels) == [("s-40", "s-40"), ("s-60", "s-60")]


def test_difference_from_a_control_is_at_counts_that_both_have():
    """The control has been trained on the initial labels, too, where there is nothing to compare it with."""
    runs = [*trials("random", [0.7], [0.8]), *trials("random", [0.2, 0.5], [0.2, 0.6], place=ALONE)]
    row = verdict("N20-darp", runs)
    assert (row["setting"], row["measured"]) == ("npc-table-1 and controls-fixmatch, 30 labels", pytest.approx(0.2))
    row = verdict("N20-darp", runs, labels="all")
    assert row["measured"] == pytest.approx(0.2)


def test_change():
    """BADGE gains 0.1 over random there and loses 0.2 here; the control's accuracy at ten labels does not count."""
    here = [*trials("badge", [0.4, 0.4], [0.5, 0.5]), *trials("random", [0.6, 0.6], [0.71, 0.71])]
    there = [
        *trials("badge", [0.9, 0.4, 0.4], [0.1, 0.4, 0.4], place=WEAK),
        *trials("random", [0.1, 0.3, 0.3], [0.9, 0.3, 0.3], place=WEAK),
    ]
    row = verdict("N15-ranking", here + there)
    assert row["setting"] == "npc-table-1 and controls-supervised-weak"
    assert row["measured"] == pytest.approx(-0.305)  # -0.30 and -0.31
    assert row["verdict"] == "supported"
    assert verdict("N15-ranking", here)["verdict"] == "not measured"


def test_differences_where_labels_outnumber_features():
    """At 30 labels the kernel has the rank for them."""
    rank = [{"notes": {"rank": 40, "score": 0.0, "tied": 9, "rounding": False}}] * 3
    runs = [record(PAPER, seed, [0.9, 0.6, 0.7], NARROW, queries=rank) for seed in (0, 1)]
    runs += [record(name, seed, [0.1, 0.5, 0.5], NARROW) for name in ("random", "npc") for seed in (0, 1)]
    found = verdicts(claim_of("N05-table-2"), runs)
    assert found["setting"].tolist() == ["npc-table-2, 50 labels", "npc-table-2, 70 labels"]
    row = verdict("N07-nonzero", runs)
    assert (row["setting"], row["measured"]) == ("npc-table-2, from 50 labels on", pytest.approx(-0.15))
    assert verdict("N07-nonzero", [each for each in runs if each["cell"]["strategy"] != PAPER])["n"] == 0


def test_growth():
    row = verdict("N22-labels", trials("random", [0.5, 0.1, 0.7], [0.6, 0.9, 0.81]))
    assert (row["setting"], row["measured"]) == ("npc-table-1, 30 to 70 labels", pytest.approx(0.205))
    assert row["verdict"] == "supported"
    assert verdict("N22-labels", trials("random", [0.5], [0.6]))["verdict"] == "not measured"


def test_overlap():
    """Trial 0: margin and albl share 2 of 4 and the others 1 of 5 at most; trial 1: 1 of 3, and 0."""
    runs = [
        *(buying(MARGIN, 0, [1, 2], [3]), buying("albl", 0, [2, 3], [4]), buying("npc", 0, [4, 8], [9])),
        *(buying(MARGIN, 1, [1], [2]), buying("albl", 1, [1], [5]), buying("npc", 1, [6], [7])),
    ]
    row = verdict("N13-overlap", runs)
    assert row["n"] == 2
    assert row["measured"] == pytest.approx(((2 / 4 - 1 / 5) + (1 / 3 - 0)) / 2)
    assert row["verdict"] == "supported"
    assert row["unit"] == ""
    assert verdict("N13-overlap", [each for each in runs if each["cell"]["strategy"] != "npc"])["n"] == 0


def test_repeats():
    """Margin shares 1 of 3 of the first two trials, 1 of 4 of the next two, npc 0; the fifth is left."""
    panel = PANELS["npc-table-1"] | {"seeds": [0, 1, 2, 3, 4]}

    def values(*runs: dict) -> list[float]:
        found = claims._repeats(claim_of("N14-repeats"), panel, panel, {"npc-queries": tables.queries(runs)})
        return [value for each in found for value in each.values]

    images = [[1, 2], [1, 3], [4, 5, 6], [6, 7], [1, 2]]
    margin = [buying(MARGIN, seed, each) for seed, each in enumerate(images)]
    others = [buying("npc", seed, [10 * seed, 10 * seed + 1]) for seed in range(5)]
    assert values(*margin, *others) == pytest.approx([1 / 3, 1 / 4])
    same = [buying("npc", seed, [7, 8]) for seed in range(5)]
    assert values(*margin, *same) == pytest.approx([1 / 3 - 1, 1 / 4 - 1])
    assert values(*margin) == values(*margin[:1], *others) == []


def collapsing(seed: int, *queries: tuple[int, bool]) -> dict:
    """Queries of the criterion of the paper: the rank of each, and whether it could tell no batches apart."""
    notes = [{"notes": {"rank": rank, "rounding": rounding, "score": 0.0, "tied": 9}} for rank, rounding in queries]
    return record(PAPER, seed, [0.5] * len(queries), NARROW, queries=notes)


def test_collapse_is_an_identity_of_queries_beyond_the_rank():
    """30 labels are within a rank of 30, and 50 beyond; there every query must be blind."""
    row = verdict("N06-collapse", [collapsing(0, (30, False), (30, True)), collapsing(1, (9, True), (9, True))])
    assert (row["n"], row["measured"], row["verdict"]) == (2, 1, "supported")
    assert row["note"] == "3 queries"
    row = verdict("N06-collapse", [collapsing(0, (30, False), (30, True)), collapsing(1, (9, True), (9, False))])
    assert (row["measured"], row["verdict"]) == (0.5, "not supported")
    assert verdict("N06-collapse", [collapsing(0, (30, False))])["verdict"] == "not measured"


def test_correlation():
    up, down = [1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]
    runs = [judging({"lambda_min": up, "uncertain": up, "coverage": down}, seed) for seed in (0, 1)]
    assert verdict("N17-uncertainty", runs)["measured"] == 1
    assert verdict("N17-uncertainty", runs)["verdict"] == "supported"
    assert verdict("N18-diversity", runs)["measured"] == -1
    assert verdict("N18-diversity", runs)["verdict"] == "supported"
    assert verdict("N17-uncertainty", [judging({"lambda_min": up, "uncertain": down}, 0)])["measured"] == -1
    flat = [judging({"lambda_min": [0.0] * 4, "uncertain": up}, seed) for seed in (0, 1)]
    assert verdict("N17-uncertainty", flat)["verdict"] == "not measured"


def test_correlation_of_a_trial_is_the_mean_over_its_queries():
    up, down = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 3.0]
    run = judging({"lambda_min": up, "wrong": up})
    run["cycles"].append(judging({"lambda_min": up, "wrong": down})["cycles"][0] | {"labelled": 50})
    row = verdict("N19-informative", [run])
    assert (row["n"], row["measured"]) == (1, pytest.approx(0.9))


def test_printed_numbers_need_no_runs():
    row = verdict("N23-printed", [])
    assert (row["measured"], row["verdict"], row["n"]) == (0, "not supported", 1)
    other = verdict("N23-printed", [], labels="30 50")
    assert other["measured"] == pytest.approx(0.0349)
    assert other["verdict"] == "supported"


def test_claims_of_all_kinds_are_measured_on_a_whole_grid():
    found = frames_of(whole())["npc-claims"]
    assert set(found["claim"]) == set(CLAIMED["claim"])
    assert set(found[found["verdict"] == "not measured"]["claim"]) == set()
    assert (found["n"] >= 1).all()
    settings = found.groupby("claim")["setting"].agg(list)
    assert settings["N08-single"] == ["npc-table-3-single-40, 40 labels"]
    assert settings["N15-ranking"] == ["npc-table-1 and controls-supervised-weak"]
    assert settings["N01-passive"] == [f"npc-table-1, {count} labels" for count in (30, 50, 70)]


def test_nothing_run_is_not_measured():
    found = frames_of([])["npc-claims"].set_index("claim")["verdict"]
    assert found.pop("N23-printed") == "not supported"
    assert set(found) == {"not measured"}
