"""Query times, the thesis' claims and its code's choices, from made records: numbers by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from test_tables import SETTING, one, record

from bench import published
from bench.core import config as configuration
from bench.core import registry
from bench.studies.lookahead.choices import CHOICES, choices
from bench.studies.lookahead.claims import CLAIMS, claims, verdict
from bench.studies.lookahead.run import tables, times
from bench.studies.lookahead.tables import by_panel

SAMPLE = "naive+timed=sample"
PANELS = {
    "thesis-2.1a": SETTING | {"strategies": [SAMPLE, "ntk"]},
    "thesis-2.1b": SETTING | {"strategies": ["random", "ntk", "gp", "gp-random"]},
    "thesis-2.2a": SETTING | {"strategies": ["random", "entropy", "ntk"]},
    "thesis-2.3-left": SETTING | {"strategies": ["ntk", "ntk+query=sequential"]},
    "thesis-2.3-width-16": SETTING | {"strategies": ["random", "ntk"]},
    "thesis-2.3-width-32": SETTING | {"width": 32, "strategies": ["random", "ntk"]},
    "thesis-A.2b-l2": SETTING | {"strategies": ["random"]},
    "thesis-A.2b-ce": SETTING | {"recipe": "cross-entropy", "strategies": ["random"]},
}
CLAIMED = published.read("thesis-claims")


def timed(strategy: str, seed: int, seconds: list[float], name: str = "big", **changes) -> tuple[dict, dict]:
    """A record and its meta with these query times."""
    run = record(strategy, seed, [0.5] * (len(seconds) + 1), **changes)
    for cycle in run["cycles"]:
        cycle["notes"] = {"scored": 8, "candidates": 400} if strategy == SAMPLE else {}
    return run, {"seconds_per_cycle": {"query": seconds}, "threads": 1, "device": {"kind": "cpu", "name": name}}


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


def test_a_timed_sample_is_in_no_table_of_accuracies():
    curves = tables.curves([timed(SAMPLE, 0, [1.0])[0], record("ntk", 0, [0.5, 0.6])])
    assert set(curves["strategy"]) == {"ntk"}
    assert tables.compared(PANELS)["thesis-2.1a"]["strategies"] == ["ntk"]
    notes = tables.tests(curves, {"thesis-2.1a": PANELS["thesis-2.1a"]})["note"]
    assert not notes.str.contains("naive").any()
    assert not tables.timing_only("naive")  # whose accuracy is one
    assert not tables.timing_only("mystery+timed=sample")


CURVES = tables.curves(
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
    return claims(CURVES, TIMED, PANELS, CLAIMED)


def test_claims_by_hand(table):
    assert list(table.columns) == CLAIMS
    assert set(table["claim"]) == set(CLAIMED["claim"])
    beats = one(table, claim="2.1b-ntk")
    assert (beats["n"], beats["measured"], beats["verdict"]) == (3, pytest.approx(0.1), "supported")
    assert one(table, claim="2.1b-gp")["verdict"] == "not measured"
    best = one(table, claim="2.2a")
    areas = {"ntk": [0.70, 0.705, 0.71], "entropy": [0.7, 0.65, 0.6]}
    assert best["b"] == "entropy"
    assert best["measured"] == pytest.approx(np.subtract(areas["ntk"], areas["entropy"]).mean())
    low, high = scipy_stats.t.interval(0.95, 2, 0.055, scipy_stats.sem([0.0, 0.055, 0.11]))
    assert (best["measured_low"], best["measured_high"]) == (pytest.approx(low), pytest.approx(high))
    assert best["verdict"] == "inconclusive"
    assert best["rivals"] == "entropy random"
    assert beats["rivals"] == ""
    after = one(table, claim="2.3-first-cycle")
    assert (after["measured"], after["verdict"]) == (pytest.approx(0.951), "supported")
    assert one(table, claim="2.3-third-cycle")["verdict"] == "not measured"
    losses = one(table, claim="A.2b-random")
    assert (losses["measured"], losses["panel_b"]) == (pytest.approx(0.005), "thesis-A.2b-ce")
    time = one(table, claim="2.1a-time")
    assert (time["a"], time["verdict"]) == (SAMPLE, "inconclusive")
    assert table.loc[table["extrapolated"], "claim"].tolist() == ["2.1a-time"]
    assert time["measured"] == pytest.approx(200)


def test_claims_say_how_their_panels_depart(table):
    texts = {"thesis-2.2a": "without badge", "thesis-A.2b-l2": "seeds 3", "thesis-A.2b-ce": "seeds 3, lr 1"}
    found = claims(CURVES, TIMED, PANELS, CLAIMED, texts).set_index("claim")["deviations"]
    assert found["2.2a"] == "without badge"
    assert found["A.2b-random"] == "seeds 3; seeds 3, lr 1"
    assert found["2.1b-ntk"] == ""
    assert set(table["deviations"]) == {""}


def test_claims_count_the_runs_that_diverged():
    again = {"cycle": 0, "epoch": 3, "learning_rate": 1.25}
    rate = {"recipe": "l2+lr=0.3"}
    curves = tables.curves(
        [
            *(record("random", seed, [0.5, 0.7], diverged=again if seed == 0 else None) for seed in range(3)),
            *(record("ntk", seed, [0.5, 0.8]) for seed in range(3)),
            *(record("ll4al", seed, [0.5, 0.6], diverged=again if seed == 0 else None, **rate) for seed in range(3)),
        ]
    )
    rates = SETTING | rate | {"strategies": ["ll4al", "ll4al+loss=sum"]}
    panels = PANELS | {"thesis-A.2a-lr-0.3": rates, "thesis-A.2a-random": SETTING | {"strategies": ["random"]}}
    found = claims(curves, TIMED, panels, CLAIMED)
    beats, rate = one(found, claim="2.1b-ntk"), one(found, claim="A.2a")
    assert (beats["n"], beats["diverged"]) == (3, 1)  # counted, and marked
    assert (rate["n"], rate["diverged"]) == (2, 2)  # one of random, counted; one at another rate than 0.3, left out
    assert one(found, claim="A.2a-sum")["verdict"] == "not measured"
    assert set(claims(CURVES, TIMED, PANELS, CLAIMED)["diverged"]) == {0}


def test_a_claim_on_many_panels_has_a_row_for_each(table):
    widths = table[table["claim"] == "2.3-width"].set_index("panel")
    assert set(widths.index) == {"thesis-2.3-width-16", "thesis-2.3-width-32"}
    assert widths.loc["thesis-2.3-width-32", "verdict"] == "inconclusive"  # one seed has no interval
    none = claims(CURVES, TIMED, {"thesis-2.1b": PANELS["thesis-2.1b"]}, CLAIMED)
    assert one(none, claim="2.3-width")["verdict"] == "not measured"


@given(low=st.floats(-2, 2), width=st.floats(0, 2), least=st.floats(-2, 2), range_=st.floats(0.01, 2))
def test_verdicts_follow_the_interval(low, width, least, range_):
    high, most = low + width, least + range_
    row = {"measured_low": low, "measured_high": high, "holds_above": least, "holds_below": most}
    found = verdict(row | {"n": 3, "quantity": "area", "deviations": "seeds 3 (paper 6)"})
    points = np.linspace(low, high, 101)
    inside = (points > least) & (points < most)
    if found == "supported":
        assert inside.all()
    elif found == "not supported":
        assert not inside.any()
    else:
        assert found == "inconclusive"
        assert not inside.all() or width == 0


@pytest.mark.parametrize(
    ("interval", "above", "below", "expected"),
    [
        ((0.01, 0.03), 0, None, "supported"),
        ((-0.03, -0.01), 0, None, "not supported"),
        ((-0.01, 0.03), 0, None, "inconclusive"),
        ((0.0, 0.0), 0, None, "not supported"),  # equal is not better
        ((0.0, 0.0), -0.01, 0.01, "supported"),  # but the same
        ((0.01, 0.03), None, 0, "not supported"),
        ((math.nan, math.nan), 0, None, "inconclusive"),
    ],
)
def test_verdicts_by_hand(interval, above, below, expected):
    low, high = interval
    row = {"n": 3, "measured_low": low, "measured_high": high, "holds_above": above, "holds_below": below}
    assert verdict(row | {"quantity": "area", "deviations": ""}) == expected


@pytest.mark.parametrize(("deviations", "expected"), [("", "supported"), ("width 64 (paper 640)", "not comparable")])
def test_an_accuracy_by_itself_is_judged_in_the_thesis_setting_alone(deviations, expected):
    row = {"n": 3, "measured_low": 0.95, "measured_high": 0.97, "holds_above": 0.94, "holds_below": None}
    assert verdict(row | {"quantity": "cycle-1", "deviations": deviations}) == expected


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
    table = choices(tables.curves(runs), published.read("thesis-choices"))
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
    table = choices(tables.curves(runs), published.read("thesis-choices"))
    assert one(table, choice="margin")["diverged"] == 2


@pytest.mark.parametrize(("seconds", "expected"), [(7.0, "supported"), (2.0, "not supported"), (20.0, "not supported")])
def test_about_15_percent_is_half_to_twice_that(seconds, expected):
    panels = {"thesis-3.15": SETTING | {"strategies": ["ntk", "ntk+kernel=full"]}}
    runs = [timed(name, seed, [s]) for seed in range(2) for name, s in (("ntk", 1.0), ("ntk+kernel=full", seconds))]
    assert one(claims(CURVES, queries(*runs), panels, CLAIMED), claim="3.15-time")["verdict"] == expected


@pytest.mark.parametrize("name", ["thesis-claims", "thesis-choices"])
def test_published_rows_name_what_exists(name):
    """Strategies, recipes and panels of the papers' own configuration."""
    frame = published.read(name)
    panels = configuration.load("paper")["lookahead"]["panels"]
    if name == "thesis-claims":
        assert frame["claim"].is_unique
        assert (frame["source"] != "").all()
        for row in frame.itertuples():
            assert list(by_panel(pd.DataFrame([*_arms(panels, row)]), panels)), row.claim
    else:
        packages = {"strategy": "strategies", "net": "nets"}
        for row in frame[frame["axis"].isin(packages)].itertuples():
            assert all(registry.canonical(packages[row.axis], arm) == arm for arm in (row.thesis, row.code))


def _arms(panels: dict, row):
    from fnmatch import fnmatch

    for pattern, arms in ((row.panel, row.a), (row.panel_b or row.panel, row.b)):
        shown = [panel for name, panel in panels.items() if fnmatch(name, pattern)]
        assert shown, pattern
        names = {strategy for panel in shown for strategy in panel["strategies"]}
        assert not arms or arms == "best" or set(arms.split()) & names, (row.claim, arms)
        yield from ({**panel, "strategy": panel["strategies"][0]} for panel in shown)


def test_every_choice_has_both_arms_at_scale_paper():
    config = configuration.load("paper")["lookahead"]["panels"]
    rows = [
        record(strategy, 0, [0.5], **{key: panel[key] for key in ("dataset", "net", "width", "recipe")})
        for panel in {str(p): p for p in config.values()}.values()
        for strategy in panel["strategies"]
    ]
    unique = list({str(row["cell"]): row for row in rows}.values())
    listed = published.read("thesis-choices")
    assert set(choices(tables.curves(unique), listed)["choice"]) == set(listed["choice"])


def test_nothing_finished_is_no_error():
    curves, none = tables.curves([]), queries()
    assert set(claims(curves, none, PANELS, CLAIMED)["verdict"]) == {"not measured"}
    assert choices(curves, published.read("thesis-choices")).empty
    assert times.times(none, CLAIMED).empty
    assert times.per_cycle(none, PANELS).empty
