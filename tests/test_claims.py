"""Query times, the thesis' claims and its code's choices, from made records: numbers by hand."""

import math
from fnmatch import fnmatch

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from test_tables import SAMPLE, frozen, one  # noqa: F401
from test_tables import SETTING as DIGITS
from test_tables import record as digits_record

from bench.core import config as configuration
from bench.core import csv, registry, study
from bench.report import claims as ledger
from bench.report.claims import COLUMNS, VERDICTS, Measured, counts, judged, seeds_needed, verdict
from bench.studies.lookahead import times
from bench.studies.lookahead.choices import CHOICES, choices
from bench.studies.lookahead.claims import measure
from bench.studies.lookahead.curves import curves as curves_of
from bench.studies.lookahead.curves import runs
from bench.studies.lookahead.diagnosis import bought
from bench.studies.lookahead.tables import PUBLISHED

SETTING = DIGITS | {"dataset": "mnist"}  # on which the thesis makes these claims
PANELS = {
    "thesis-2.1a": SETTING | {"strategies": [SAMPLE, "ntk"]},
    "thesis-2.1b": SETTING | {"strategies": ["random", "ntk", "gp", "gp-random"]},
    "thesis-2.2a": SETTING | {"strategies": ["random", "entropy", "ntk"]},  # the thesis has SVHN here
    "thesis-2.3-left": SETTING | {"strategies": ["ntk", "ntk+query=sequential"]},
    "thesis-2.3-width-16": SETTING | {"strategies": ["random", "ntk"]},
    "thesis-2.3-width-32": SETTING | {"width": 32, "strategies": ["random", "ntk"]},
    "thesis-A.1a": SETTING | {"strategies": ["random", "entropy", "ntk"]},
    "thesis-A.2b-l2": SETTING | {"strategies": ["random"]},
    "thesis-A.2b-ce": SETTING | {"recipe": "cross-entropy", "strategies": ["random"]},
}
CLAIMED = csv.read(study.folder("lookahead") / "claims.csv")
LISTED = csv.read(PUBLISHED / "thesis-choices.csv")


def record(strategy: str, seed: int, accuracies: list[float], **changes) -> dict:
    return digits_record(strategy, seed, accuracies, **({"dataset": "mnist", "name": "mnist"} | changes))


def config_of(panels: dict, seeds: int = 3) -> dict:
    return configuration.check({"scale": "quick", "lookahead": {"seeds": [*range(seeds)], "panels": panels}}, "tests")


def claims(curves: pd.DataFrame, queries: pd.DataFrame, config: dict, *only: str) -> pd.DataFrame:
    """The claims, or only some of them, judged by these curves and times."""
    frames = {"lookahead-curves": curves, "lookahead-runs": runs(curves), "lookahead-queries": queries}
    frames["lookahead-bought"] = bought([])
    claimed = CLAIMED[CLAIMED["claim"].isin(only)] if only else CLAIMED
    return judged("lookahead", claimed, measure, frames, config)


def timed(strategy: str, seed: int, seconds: list[float], name: str = "big", **changes) -> tuple[dict, dict]:
    """A record and its meta with these query times."""
    run = record(strategy, seed, [0.5] * (len(seconds) + 1), **changes)
    for cycle in run["cycles"]:
        cycle["notes"] = {"scored": 8, "candidates": 400} if strategy == SAMPLE else {}
    return run, {"seconds_per_step": {"query": seconds}, "threads": 1, "device": {"kind": "cpu", "name": name}}


def queries(*runs: tuple[dict, dict]) -> pd.DataFrame:
    return times.queries(*zip(*runs, strict=True)) if runs else times.queries([], [])


TIMED = queries(
    timed("ntk", 0, [1.0, 3.0]),
    timed("ntk", 1, [2.0, 2.0]),
    timed(SAMPLE, 0, [4.0, 4.0]),
    timed(SAMPLE, 1, [16.0, 16.0]),
)


def test_times_of_a_sample_are_extrapolated():
    rows = times.per_cycle(TIMED, PANELS)
    assert list(rows.columns) == times.PER_CYCLE
    naive = one(rows, panel="thesis-2.1a", strategy=SAMPLE, cycle=1)
    assert naive["extrapolated"]
    assert naive["seconds_mean"] == pytest.approx((4 + 16) / 2 * 400 / 8)
    ntk = one(rows, panel="thesis-2.1a", strategy="ntk", cycle=1)
    assert (ntk["seconds_mean"], ntk["n"], ntk["labelled"], ntk["extrapolated"]) == (2.5, 2, 30, False)
    assert SAMPLE not in set(rows.loc[rows["panel"] == "thesis-2.1b", "strategy"])


def test_ratios_are_geometric_and_paired_by_seed():
    n, mean, low, high = times.ratio(TIMED, SAMPLE, "ntk")
    assert n == 2
    assert mean == pytest.approx(math.sqrt(100 * 400))  # 200 s to 2 s, and 800 s to 2 s
    assert low * high == pytest.approx(mean**2)
    assert math.log(high / mean) == pytest.approx(12.7062047 * math.log(2))  # deviation log(2) sqrt(2), n = 2
    back = times.ratio(TIMED, "ntk", SAMPLE)
    assert back[1:] == pytest.approx((1 / mean, 1 / high, 1 / low))
    assert times.ratio(TIMED, SAMPLE, "gp")[0] == 0


def test_times_of_other_machines_are_not_compared():
    mixed = queries(timed("ntk", 0, [1.0]), timed(SAMPLE, 0, [1.0], name="small"))
    assert times.ratio(mixed, SAMPLE, "ntk")[0] == 0
    table = times.times(mixed, CLAIMED)
    assert list(table.columns) == times.TIMES
    assert math.isnan(one(table, strategy=SAMPLE)["over_ntk"])


def test_times_table_beside_what_is_published():
    table = times.times(TIMED, CLAIMED)
    naive = one(table, strategy=SAMPLE)
    assert naive["published"] == "more than 100 times faster"
    assert (naive["over_ntk"], naive["n"], naive["queries"]) == (pytest.approx(200), 2, 4)
    ntk = one(table, strategy="ntk")
    assert (ntk["over_ntk"], ntk["published"]) == (1, "")
    full = queries(timed("ntk", 0, [1.0]), timed("ntk+kernel=full", 0, [7.0]))
    row = one(times.times(full, CLAIMED), strategy="ntk+kernel=full")
    assert row["over_ntk"] == pytest.approx(7)
    assert row["published"].startswith("about 6.7")  # the same way round


def test_runs_that_began_anew_have_no_times():
    again = timed("ntk", 0, [1.0], diverged={"cycle": 0, "epoch": 3, "learning_rate": 1.25})
    assert queries(again).empty


CURVES = curves_of(
    [
        *(record("ntk", seed, [0.6 + 0.01 * seed, 0.8]) for seed in range(3)),
        *(record("random", seed, [0.5 + 0.01 * seed, 0.7]) for seed in range(3)),
        *(record("entropy", seed, [0.5, 0.9 - 0.1 * seed]) for seed in range(3)),
        *(record("ntk+query=sequential", seed, [0.6, 0.95 + 0.001 * seed]) for seed in range(3)),
        *(record("random", seed, [0.5, 0.7], recipe="cross-entropy") for seed in range(3)),
        record("ntk", 0, [0.6, 0.8], width=32),
        record("random", 0, [0.5, 0.6], width=32),
    ]
)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return claims(CURVES, TIMED, config_of(PANELS))


def test_claims_by_hand(table):
    assert list(table.columns) == COLUMNS
    assert set(table["claim"]) == set(CLAIMED["claim"])
    assert set(table["study"]) == {"lookahead"}
    assert set(table["verdict"]) <= set(VERDICTS)
    beats = one(table, claim="2.1b-ntk")
    assert (beats["n"], beats["measured"], beats["verdict"]) == (3, pytest.approx(0.1), "supported")
    assert (beats["setting"], beats["arms"], beats["unit"]) == ("thesis-2.1b", "`ntk` minus `random`", "points")
    assert (beats["where"], beats["data"]) == ("2.1b", "mnist, 1,300 train / 497 test")
    assert one(table, claim="2.1b-gp")["verdict"] == "not measured"
    best = one(table, claim="A.1a")
    areas = {"ntk": [0.70, 0.705, 0.71], "entropy": [0.7, 0.65, 0.6]}
    assert best["arms"] == "`ntk` minus `entropy`"
    assert best["note"] == "the best of `entropy`, `random`"
    assert best["measured"] == pytest.approx(np.subtract(areas["ntk"], areas["entropy"]).mean())
    low, high = scipy_stats.t.interval(0.95, 2, 0.055, scipy_stats.sem([0.0, 0.055, 0.11]))
    assert (best["low"], best["high"]) == (pytest.approx(low), pytest.approx(high))
    assert best["verdict"] == "inconclusive"
    assert best["seeds_needed"] == slow_search([0.0, 0.055, 0.11], 0, math.inf) == "7"
    assert beats["note"] == ""
    assert one(table, claim="2.3-third-cycle")["verdict"] == "not measured"
    losses = one(table, claim="A.2b-random")
    assert (losses["measured"], losses["setting"]) == (pytest.approx(0.005), "thesis-A.2b-l2")
    time = one(table, claim="2.1a-time")
    assert (time["arms"], time["unit"], time["verdict"]) == (f"`{SAMPLE}` over `ntk`", "times", "inconclusive")
    assert time["note"] == "extrapolated from a sample of the candidates"
    assert time["measured"] == pytest.approx(200)
    assert not table.loc[table["claim"] != "2.1a-time", "note"].str.contains("extrapolated").any()


def test_a_panel_on_other_images_than_the_thesis_is_not_comparable(table):
    stand_in = one(table, claim="2.2a")
    assert (stand_in["n"], stand_in["verdict"]) == (3, "not comparable")
    assert "dataset mnist (paper svhn)" in stand_in["departures"]
    best = one(table, claim="A.1a")  # the same runs, of a panel on the thesis' images
    assert (best["low"], best["high"]) == (stand_in["low"], stand_in["high"])
    assert best["verdict"] != "not comparable"
    other = {**PANELS, "thesis-A.2b-ce": PANELS["thesis-A.2b-ce"] | {"dataset": "digits"}}  # of one side is enough
    made = [record("random", s, [0.5, 0.7], recipe="cross-entropy", dataset="digits", name="digits") for s in range(3)]
    both = curves_of([*made, *(record("random", s, [0.5, 0.7]) for s in range(3))])
    for measured, expected in ((both, "not comparable"), (curves_of(made), "not measured")):
        (row,) = claims(measured, queries(), config_of(other), "A.2b-random").to_dict("records")
        assert row["verdict"] == expected


def test_claims_say_how_their_panels_depart(table):
    found = table.set_index("claim")["departures"]
    assert "width 16 (paper 640)" in found["2.1b-ntk"]
    assert "seeds 3 (paper 6)" in found["2.1b-ntk"]
    assert "without badge" in found["A.1a"]
    assert found["A.2b-random"].count("without ntk") == 1  # what both panels say is said once
    wider = PANELS | {"thesis-A.2b-ce": PANELS["thesis-A.2b-ce"] | {"width": 32}}
    here, there = claims(CURVES, TIMED, config_of(wider), "A.2b-random")["departures"].iloc[0].split("; ")
    assert "width 16 (paper 640)" in here
    assert "width 32 (paper 640)" in there
    assert found["2.1a-accuracy"] == found["2.1a-block"]  # departures are a setting's, measured or not


def test_an_accuracy_by_itself_is_judged_in_the_thesis_setting_alone(table):
    here = one(table, claim="2.3-first-cycle")
    assert (here["measured"], here["unit"], here["verdict"]) == (pytest.approx(0.951), "%", "not comparable")
    paper = configuration.load("paper")
    panel = paper["lookahead"]["panels"]["thesis-2.3-left"]
    same = {key: panel[key] for key in DIGITS}
    made = curves_of([record("ntk+query=sequential", s, [0.6, 0.95 + 0.001 * s], **same) for s in range(6)])
    (row,) = claims(made, queries(), paper, "2.3-first-cycle").to_dict("records")
    assert (row["n"], row["verdict"], row["departures"]) == (6, "supported", "")


def test_claims_count_the_runs_that_diverged(table):
    again = {"cycle": 0, "epoch": 3, "learning_rate": 1.25}
    rate = {"recipe": "l2+lr=0.3"}
    curves = curves_of(
        [
            *(record("random", seed, [0.5, 0.7], diverged=again if seed == 0 else None) for seed in range(3)),
            *(record("ntk", seed, [0.5, 0.8]) for seed in range(3)),
            *(record("ll4al", seed, [0.5, 0.6], diverged=again if seed == 0 else None, **rate) for seed in range(3)),
        ]
    )
    rates = SETTING | rate | {"strategies": ["ll4al", "ll4al+loss=sum"]}
    panels = PANELS | {"thesis-A.2a-lr-0.3": rates, "thesis-A.2a-random": SETTING | {"strategies": ["random"]}}
    found = claims(curves, TIMED, config_of(panels), "2.1b-ntk", "A.2a", "A.2a-sum", "A.1a")
    beats, rate = one(found, claim="2.1b-ntk"), one(found, claim="A.2a")
    assert (beats["n"], beats["note"]) == (3, "1 diverged")  # counted, and marked
    assert (rate["n"], rate["note"]) == (2, "2 diverged")  # one of random, counted; one at another rate, left out
    assert one(found, claim="A.1a")["note"] == "the best of `random`; 1 diverged"
    assert one(found, claim="A.2a-sum")["verdict"] == "not measured"
    assert not table["note"].str.contains("diverged").any()


def test_a_claim_on_many_panels_has_a_row_for_each(table):
    widths = table[table["claim"] == "2.3-width"].set_index("setting")
    assert set(widths.index) == {"thesis-2.3-width-16", "thesis-2.3-width-32"}
    assert widths.loc["thesis-2.3-width-32", "verdict"] == "inconclusive"  # one seed has no interval
    none = claims(CURVES, TIMED, config_of({"thesis-2.1b": PANELS["thesis-2.1b"]}), "2.3-width")
    assert one(none, claim="2.3-width")["verdict"] == "not measured"


@pytest.mark.parametrize(("seconds", "expected"), [(7.0, "supported"), (2.0, "not supported"), (20.0, "not supported")])
def test_about_15_percent_is_half_to_twice_that(seconds, expected):
    panels = {"thesis-3.15": SETTING | {"strategies": ["ntk", "ntk+kernel=full"]}}
    runs = [timed(name, seed, [s]) for seed in range(2) for name, s in (("ntk", 1.0), ("ntk+kernel=full", seconds))]
    assert claims(CURVES, queries(*runs), config_of(panels), "3.15-time")["verdict"].tolist() == [expected]


# The rule, whatever the study

NONE = math.nan  # no bound
VALUES = st.lists(st.floats(-2, 2), min_size=1, max_size=8)
RANGES = st.tuples(st.floats(-2, 2), st.floats(0.01, 2)).map(lambda pair: (pair[0], sum(pair)))


def around(mean: float, spread: float) -> list[float]:
    """Three values whose mean and sample deviation are these."""
    return [mean - spread, mean, mean + spread]


@given(VALUES, RANGES)
def test_verdicts_follow_the_interval(values, bounds):
    found = verdict(Measured(values), *bounds)
    rounded = np.round(values, 12)
    if len(values) == 1:
        assert (found["verdict"], found["seeds_needed"]) == ("inconclusive", "")
        assert math.isnan(found["low"])
        return
    if np.ptp(rounded):
        low, high = scipy_stats.t.interval(0.95, len(values) - 1, rounded.mean(), scipy_stats.sem(rounded))
        assert (found["low"], found["high"]) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))
    points = np.linspace(found["low"], found["high"], 101)
    inside = (points > bounds[0]) & (points < bounds[1])
    expected = {"supported": inside.all(), "not supported": not inside[1:-1].any(), "inconclusive": not inside.all()}
    assert expected[found["verdict"]]
    decided = found["verdict"] != "inconclusive"
    needed = found["seeds_needed"]
    assert decided == (not needed.startswith("more") and int(needed) <= len(values))


@given(VALUES, RANGES, st.permutations(range(8)))
def test_verdicts_do_not_depend_on_the_order_of_seeds_nor_on_seeds_that_are_missing(values, bounds, order):
    shuffled = [values[place] for place in order if place < len(values)]
    one, other = verdict(Measured(values), *bounds), verdict(Measured([math.nan, *shuffled]), *bounds)
    assert one["n"] == other["n"] == len(values)
    assert one["measured"] == pytest.approx(other["measured"], abs=1e-12)
    edge = min(abs(end - bound) for end in (one["low"], one["high"]) for bound in bounds)
    if edge > 1e-9 or len(values) == 1:
        assert one["verdict"] == other["verdict"]


@given(VALUES, RANGES)
def test_a_claim_and_its_contrary_are_judged_alike(values, bounds):
    """Mirrored values in a mirrored range: the same verdict; ratios the other way round: the same, too."""
    least, most = bounds
    one, mirrored = verdict(Measured(values), least, most), verdict(Measured([-v for v in values]), -most, -least)
    assert (one["verdict"], one["seeds_needed"]) == (mirrored["verdict"], mirrored["seeds_needed"])
    assert one["low"] == -mirrored["high"] or len(values) == 1
    ratio = verdict(Measured(values, unit="times"), math.exp(least), math.exp(most))
    assert ratio["measured"] == pytest.approx(math.exp(one["measured"]))
    edge = min(abs(end - bound) for end in (one["low"], one["high"]) for bound in bounds)
    if edge > 1e-9 or len(values) == 1:
        assert ratio["verdict"] == one["verdict"]


@given(VALUES, RANGES)
def test_what_is_not_comparable_is_never_judged(values, bounds):
    found = verdict(Measured(values, comparable=False), *bounds)
    assert found["verdict"] == "not comparable"
    assert found["n"] == len(values)
    assert verdict(Measured([], comparable=False), *bounds)["verdict"] == "not measured"


@pytest.mark.parametrize(
    ("values", "above", "below", "expected"),
    [
        (around(0.02, 0.001), 0, NONE, "supported"),
        (around(-0.02, 0.001), 0, NONE, "not supported"),
        (around(0.02, 0.05), 0, NONE, "inconclusive"),
        (around(0.02, 0.001), 0.01, 0.03, "supported"),
        (around(0.02, 0.05), 0.01, 0.03, "inconclusive"),  # wider than the range
        (around(0.04, 0.001), 0.01, 0.03, "not supported"),
        ([0.0, 0.0], 0, NONE, "not supported"),  # equal is not better
        ([0.0, 0.0], -0.01, 0.01, "supported"),  # but the same
        (around(0.02, 0.001), NONE, 0, "not supported"),
        ([0.5], 0, NONE, "inconclusive"),  # one seed
        ([math.nan], 0, NONE, "not measured"),
        ([], 0, NONE, "not measured"),
        ([0.3 - 0.1 - 0.2] * 2, NONE, 0, "not supported"),  # rounding is not a difference
    ],
)
def test_verdicts_by_hand(values, above, below, expected):
    assert verdict(Measured(values), above, below)["verdict"] == expected


def test_claims_without_any_setting_have_a_row_and_those_with_many_a_row_for_each():
    columns = ["claim", "where", "statement", "source", "published", "quantity", "holds_above", "holds_below", "own"]
    claimed = pd.DataFrame([["c", "fig. 1", "grows", "p. 3", "2", "slope", 0.0, NONE, "mine"]], columns=columns)
    nothing = judged("toy", claimed, lambda claim, frames, config: [], {}, {"scale": "s"})
    assert list(nothing.columns) == COLUMNS
    (row,) = nothing.to_dict("records")
    assert (row["study"], row["scale"], row["n"], row["verdict"]) == ("toy", "s", 0, "not measured")
    seen = []

    def measure(claim, frames, config):
        seen.append((claim["own"], frames, config["scale"]))
        return [Measured([1, 2, 3], setting=name, unit="per cent", note="n", departures="d", data="x") for name in "ab"]

    both = judged("toy", claimed, measure, {"f": 1}, {"scale": "s"})
    assert seen == [("mine", {"f": 1}, "s")]
    assert both["setting"].tolist() == ["a", "b"]
    row = both.iloc[0]
    assert (row["statement"], row["unit"], row["note"], row["departures"]) == ("grows", "per cent", "n", "d")
    assert (row["measured"], row["holds_above"], row["source"], row["data"]) == (2, 0, "p. 3", "x")


# How many seeds


def slow_search(values: list[float], least: float, most: float) -> str:
    """Try one number of seeds after the other."""
    mean, deviation = np.mean(values), np.std(values, ddof=1)
    for n in range(2, ledger.MOST + 1):
        half = scipy_stats.t.ppf(0.975, n - 1) * deviation / math.sqrt(n)
        if least < mean - half and mean + half < most:
            return str(n)
        if mean + half <= least or mean - half >= most:
            return str(n)
    return f"more than {ledger.MOST}"


@given(st.lists(st.floats(-2, 2), min_size=2, max_size=8), RANGES, st.sampled_from(["both", "above", "below", "none"]))
def test_seeds_needed_are_found_by_trying(values, bounds, kept):
    least = bounds[0] if kept in ("both", "above") else -math.inf
    most = bounds[1] if kept in ("both", "below") else math.inf
    assert seeds_needed(values, least, most) == slow_search(values, least, most)


@pytest.mark.parametrize(
    ("values", "least", "most", "expected"),
    [
        (around(1.0, 0.01), 0, math.inf, "2"),  # decided already: half of it is 12.7 * 0.01 / 1.41 at two seeds
        (around(1.0, 1.0), 0, math.inf, "7"),  # t = 2.447 with 6 degrees of freedom, below sqrt 7; 2.571 above sqrt 6
        (around(-1.0, 1.0), 0, math.inf, "7"),  # that it does not hold takes as many
        (around(1.0, 5.0), 0, math.inf, "99"),  # 1.984 * 5 / sqrt 99 = 0.997
        (around(1.0, 5.1), 0, math.inf, "more than 100"),  # 1.984 * 5.1 / sqrt 100 = 1.01
        ([0.3, 0.3, 0.3], 0, math.inf, "2"),  # no spread
        ([0.0, 0.0], 0, math.inf, "2"),  # on the bound without spread: equal is not better, however often
        (around(0.0, 1.0), 0, math.inf, "more than 100"),  # on the bound with some
        (around(0.0, 1.0), -1, 1, "7"),
        (around(0.0, 1.0), -math.inf, math.inf, "2"),
        ([0.4], 0, math.inf, ""),  # no spread is known
        ([], 0, math.inf, ""),
    ],
)
def test_seeds_needed_by_hand(values, least, most, expected):
    assert seeds_needed(values, least, most) == expected


def test_seeds_needed_of_ratios_are_on_the_scale_of_logarithms():
    logs = around(math.log(8), math.log(8))  # 1, 8 and 64 times
    found = verdict(Measured(logs, unit="times"), 1, NONE)
    assert found["measured"] == pytest.approx(8)
    assert found["low"] * found["high"] == pytest.approx(64)
    assert found["seeds_needed"] == "7"  # a mean of one deviation, as above
    assert verdict(Measured(logs, unit="times"), NONE, 1)["seeds_needed"] == "7"  # no lower bound, not even 0
    assert verdict(Measured(logs, unit="times"), 0, 1)["seeds_needed"] == "7"  # nor does 0 bound a ratio
    assert verdict(Measured(logs, unit="times"), 8, NONE)["seeds_needed"] == "more than 100"
    assert verdict(Measured([8.0, 8.0], unit="times"), NONE, NONE)["verdict"] == "supported"


# How many claims


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["supported", "supported"], "supported"),
        (["supported", "inconclusive"], "inconclusive"),
        (["supported", "inconclusive", "not supported"], "not supported"),
        (["supported", "not comparable"], "supported"),
        (["not comparable", "not measured"], "not comparable"),
        (["not measured", "inconclusive"], "inconclusive"),
        (["not measured"], "not measured"),
    ],
)
def test_a_claim_in_many_settings_counts_once_by_its_weakest_verdict(verdicts, expected):
    for order in (verdicts, verdicts[::-1]):
        found = counts(pd.DataFrame({"study": "a", "claim": "c", "verdict": order}))
        assert list(found.columns) == list(VERDICTS)
        assert found.loc["a"].to_dict() == {word: int(word == expected) for word in VERDICTS}


def test_claims_are_counted_by_study():
    rows = [("a", "1", "supported"), ("a", "2", "supported"), ("a", "2", "not supported"), ("b", "1", "inconclusive")]
    found = counts(pd.DataFrame(rows, columns=["study", "claim", "verdict"]))
    assert found.loc["a"].to_dict() == dict.fromkeys(VERDICTS, 0) | {"supported": 1, "not supported": 1}
    assert found.loc["b"].to_dict() == dict.fromkeys(VERDICTS, 0) | {"inconclusive": 1}  # another claim of that id


def test_choices_by_hand():
    runs = [
        *(record("margin", seed, [0.5, 0.6 + 0.1 * seed]) for seed in range(3)),
        *(record("margin+rule=released", seed, [0.5, 0.5 + 0.05 * seed]) for seed in range(3)),
        *(record("ntk", seed, [0.5, 0.6], recipe="l2-augment") for seed in range(2)),
        *(record("ntk", seed, [0.5, 0.7], recipe="l2-augment+view=augmented") for seed in range(2)),
        *(record("ntk", seed, [0.5, 0.5], recipe="l2-augment+cycle_momentum=false") for seed in range(2)),
        *(record("ntk", seed, [0.5, 0.8], net="wrn+blocks=2") for seed in range(2)),
        *(record("ntk", seed, [0.5, 0.4], net="wrn+blocks=2+shortcut=released") for seed in range(2)),
        record("ll4al", 0, [0.5, 0.6]),  # its other arm has not run
    ]
    table = choices(curves_of(runs), LISTED)
    assert list(table.columns) == CHOICES
    assert len(table) == 4
    margin = one(table, choice="margin")
    differences = [-0.1, -0.15, -0.2]
    assert (margin["n"], margin["final_mean"]) == (3, pytest.approx(-0.15))
    assert margin["final_p"] == pytest.approx(scipy_stats.ttest_1samp(differences, 0).pvalue)
    assert margin["area_mean"] == pytest.approx(-0.075)
    assert (margin["thesis"], margin["code"], margin["default"]) == ("margin", "margin+rule=released", "thesis")
    view = one(table, choice="scored images")
    assert (view["thesis"], view["code"], view["strategy"]) == ("l2-augment", "l2-augment+view=augmented", "ntk")
    assert view["area_mean"] == pytest.approx(0.05)
    momentum = one(table, choice="momentum")
    assert (momentum["thesis"], momentum["code"]) == ("l2-augment+cycle_momentum=false", "l2-augment")
    assert (momentum["default"], momentum["final_mean"]) == ("code", pytest.approx(0.1))
    shortcuts = one(table, choice="identity shortcuts")
    assert (shortcuts["net"], shortcuts["strategy"], shortcuts["final_mean"]) == ("", "ntk", pytest.approx(-0.4))
    assert set(table["diverged"]) == {0}
    runs[0]["diverged"] = runs[4]["diverged"] = {"cycle": 0, "epoch": 3, "learning_rate": 1.25}
    table = choices(curves_of(runs[:6]), LISTED[LISTED["choice"] == "margin"])
    assert one(table, choice="margin")["diverged"] == 2


def test_claims_name_what_exists():
    """Strategies and panels of the papers' own configuration."""
    panels = configuration.load("paper")["lookahead"]["panels"]
    assert CLAIMED["claim"].is_unique
    assert (CLAIMED["source"] != "").all()
    assert set(CLAIMED["quantity"].str.partition("-")[0]) <= {"area", "final", "cycle", "time", "same"}
    for row in CLAIMED.itertuples():
        assert not (pd.isna(row.holds_above) and pd.isna(row.holds_below)), row.claim
        for pattern, arms in ((row.panel, row.a), (row.panel_b or row.panel, row.b)):
            shown = [panel for name, panel in panels.items() if fnmatch(name, pattern)]
            assert shown, pattern
            names = {strategy for panel in shown for strategy in panel["strategies"]}
            assert not arms or arms == "best" or set(arms.split()) & names, (row.claim, arms)


def test_choices_name_what_exists():
    packages = {"strategy": "strategies", "net": "nets"}
    for row in LISTED[LISTED["axis"].isin(packages)].itertuples():
        assert all(registry.canonical(packages[row.axis], arm) == arm for arm in (row.thesis, row.code))


def test_every_choice_has_both_arms_at_scale_paper():
    config = configuration.load("paper")["lookahead"]["panels"]
    rows = [
        record(strategy, 0, [0.5], **{key: panel[key] for key in ("dataset", "net", "width", "recipe")})
        for panel in {str(p): p for p in config.values()}.values()
        for strategy in panel["strategies"]
    ]
    unique = list({str(row["cell"]): row for row in rows}.values())
    assert set(choices(curves_of(unique), LISTED)["choice"]) == set(LISTED["choice"])


def test_nothing_finished_is_no_error():
    curves, none = curves_of([]), queries()
    assert set(claims(curves, none, config_of(PANELS))["verdict"]) == {"not measured"}
    assert choices(curves, LISTED).empty
    assert times.times(none, CLAIMED).empty
    assert times.per_cycle(none, PANELS).empty
