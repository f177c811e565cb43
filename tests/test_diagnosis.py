"""Why strategies do what they do: what they buy, the audit of look-ahead, identities, panels with their own seeds."""

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.text import Text
from scipy import stats as distributions
from test_claims import PANELS, config_of
from test_tables import SETTING, record
from torch import nn

from bench.core import config as configuration
from bench.core import csv, study
from bench.report import stats
from bench.report.claims import DEMO, Measured, counts, judged, overall, verdict
from bench.report.figure import draw
from bench.strategies import Query
from bench.strategies._bought import bought
from bench.studies import lookahead
from bench.studies.lookahead import diagnosis
from bench.studies.lookahead.claims import measure
from bench.studies.lookahead.curves import curves, of_setting


class Known(nn.Module):
    """Three classes; the outputs are the three pixels of an image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)


def test_what_was_bought_by_hand():
    """Candidates near class 0, between 0 and 1, at class 2 (truly 1); the labelled image is at class 0."""
    candidates = torch.tensor([[1.0, 0, 0], [0.5, 0.45, 0], [0, 0, 1.0], [0.9, 0, 0]]).view(4, 1, 1, 3)
    labelled = torch.tensor([[1.0, 0, 0]]).view(1, 1, 1, 3)
    query, labels = Query(Known(), labelled, torch.tensor([0]), candidates), torch.tensor([0, 1, 1, 0])
    found = bought(query, np.array([1, 2]), labels)
    assert found["classes"] == [0, 2, 0]
    assert found["wrong"] == 1.0
    assert found["wrong_of_all"] == 0.5
    distances = [0, np.hypot(0.5, 0.45), np.sqrt(2), 0.1]
    assert found["distance"] == pytest.approx(np.mean(distances[1:3]) / np.mean(distances), abs=1e-6)
    assert found["margin"] == 0.5  # of the two, margin would take the second candidate and one of the others


def with_queries(run: dict, queried: list[list[int]], notes: dict | None = None) -> dict:
    about = {"classes": [2, 2], "wrong": 0.5, "wrong_of_all": 0.25, "distance": 1.5, "margin": 0.75}
    for cycle, images in zip(run["cycles"], queried, strict=False):
        cycle |= {"queried": images, "bought": about if images else {}, "notes": notes or {}}
    return run


def test_the_table_of_what_was_bought_has_a_row_per_query():
    table = diagnosis.bought([with_queries(record("ntk", 0, [0.5, 0.6, 0.7]), [[3, 1], [7, 5], []])])
    assert list(table.columns) == diagnosis.BOUGHT
    assert table["cycle"].tolist() == [0, 1]
    assert table["balance"].tolist() == [1.0, 1.0]
    assert table["fingerprint"].tolist() == ["1 3", "5 7"]
    assert table["margin"].tolist() == [0.75, 0.75]


def test_an_audit_is_a_rank_correlation_beside_the_most_that_can_be_had():
    rng = np.random.default_rng(0)
    foretold, retrained, again = rng.normal(size=(3, 20)).tolist()
    notes = {"audit_foretold": foretold, "audit_retrained": retrained, "audit_again": again}
    table = diagnosis.audits([with_queries(record("ntk+audit=sample", 0, [0.5, 0.6]), [[1, 2], []], notes)])
    assert len(table) == 1
    assert table["foretold"].iloc[0] == pytest.approx(distributions.spearmanr(foretold, retrained).statistic)
    assert table["repeated"].iloc[0] == pytest.approx(distributions.spearmanr(again, retrained).statistic)
    assert table["sample"].iloc[0] == 20


def same(*purchases: tuple[str, int, list[list[int]]]) -> pd.Series:
    """What the claim of fig. 2.1a on blocks says of these purchases."""
    runs = [
        with_queries(record(name, seed, [0.5, 0.6], dataset="mnist", name="mnist"), q) for name, seed, q in purchases
    ]
    claims = csv.read(study.folder("lookahead") / "claims.csv")
    claims = claims[claims["claim"] == "2.1a-block"]
    curve = curves(runs)
    frames = {"lookahead-curves": curve, "lookahead-runs": curve, "lookahead-bought": diagnosis.bought(runs)}
    panel = PANELS["thesis-2.1a"] | {"strategies": ["ntk", "ntk+solve=resolve"]}
    return judged("lookahead", claims, measure, frames, config_of({"thesis-2.1a": panel})).iloc[0]


def test_an_identity_holds_in_every_run_or_does_not():
    arms = ("ntk", "ntk+solve=resolve")
    equal = [(name, seed, [[1, 2 + seed], []]) for name in arms for seed in range(2)]
    assert same(*equal)["verdict"] == "supported"
    assert same(*equal)["measured"] == 1
    assert same(*equal[:-1], (arms[1], 1, [[1, 9], []]))["verdict"] == "not supported"


def test_an_exact_check_needs_no_interval():
    assert verdict(Measured([1.0], exact=True), 1, np.nan)["verdict"] == "supported"
    assert verdict(Measured([1.0, 0.9, 1.0], exact=True), 1, np.nan)["verdict"] == "not supported"
    assert verdict(Measured([1.0], exact=True), 1, np.nan)["seeds_needed"] == ""


def test_a_demonstration_gives_no_verdicts():
    config = config_of(PANELS) | {"demonstration": True}
    runs = curves(
        [record(s, k, [0.5 + k, 0.9], dataset="mnist", name="mnist") for s in ("ntk", "random") for k in (0, 1)]
    )
    frames = {"lookahead-curves": runs, "lookahead-runs": runs.assign(area=0.5)}
    claims = csv.read(study.folder("lookahead") / "claims.csv")
    table = judged("lookahead", claims[claims["claim"].isin(["2.1b-ntk", "2.1b-gp"])], measure, frames, config)
    assert overall(table).tolist() == [DEMO, "not measured"]
    assert counts(table).loc["lookahead", DEMO] == 1
    assert configuration.load("quick")["demonstration"]
    assert not configuration.load("cpu")["demonstration"]


def test_probability_of_improvement_by_hand():
    found = stats.probability_of_improvement([1, 2, 3], [0, 1, 2])
    assert found["probability"] == pytest.approx((3 * 2 + 2 * 0.5) / 9)  # six pairs better, two ties
    assert found["low"] < found["probability"] < found["high"]
    assert stats.probability_of_improvement([5, 6], [1, 2])["low"] == 1
    assert np.isnan(stats.probability_of_improvement([5], [1, 2])["low"])


def test_its_interval_covers_the_truth():
    """Two normal laws one deviation apart: P = Phi(1 / sqrt 2)."""
    truth, rng = distributions.norm.cdf(1 / np.sqrt(2)), np.random.default_rng(0)
    intervals = [stats.probability_of_improvement(rng.normal(1, 1, 20), rng.normal(0, 1, 20), 300) for _ in range(100)]
    assert sum(found["low"] <= truth <= found["high"] for found in intervals) >= 85


def test_a_panel_may_have_seeds_of_its_own():
    panels = {"a": SETTING | {"strategies": ["random"]}, "b": SETTING | {"strategies": ["random"], "seeds": [7, 8]}}
    protocol = {"digits": {"initial": 20, "query": 10, "subset": 60, "cycles": 2}}
    ours = {"seeds": [0, 1, 2], "panels": panels, "protocol": protocol}
    config = configuration.check({"scale": "mine", "lookahead": ours}, "tests")
    assert sorted({cell.seed for cell in lookahead.cells(config)}) == [0, 1, 2, 7, 8]
    rows = curves([record("random", seed, [0.5, 0.6]) for seed in (0, 1, 2, 7, 8)])
    shown = {name: set(of_setting(rows, panel)["seed"]) for name, panel in lookahead.panels(config).items()}
    assert shown == {"a": {0, 1, 2}, "b": {7, 8}}


def made() -> list[dict]:
    """Runs of three strategies, and audits at two widths."""
    rng, runs = np.random.default_rng(0), []
    for seed in range(3):
        for name in ("random", "margin", "ntk"):
            runs.append(with_queries(record(name, seed, [0.5, 0.6, 0.7]), [[1, 2], [3, 4], []]))
        for width in (8, 16):
            scores = rng.normal(size=(3, 30)).cumsum(0).tolist()
            notes = dict(zip(("audit_foretold", "audit_retrained", "audit_again"), scores, strict=True))
            run = record("ntk+audit=sample", seed, [0.5, 0.6, 0.7], width=width)
            runs.append(with_queries(run, [[1, 2], [3, 4], []], notes))
    return runs


def test_the_diagnosis_is_drawn_with_and_without_audits():
    tables = {"lookahead-bought": diagnosis.bought(made()), "lookahead-audit": diagnosis.audits(made())}
    figure = draw("lookahead-diagnosis", tables)
    assert len(figure.axes) == 5
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["margin", "ntk", "random"]
    audit = figure.axes[-1]
    assert {line.get_linestyle() for line in audit.lines if len(line.get_xdata()) == 2} >= {"-", "--"}
    page = figure.bbox.padded(1)
    for text in figure.findobj(Text):
        if text.get_text().strip() and text.get_visible() and text.get_fontsize() > 1:
            assert text.get_fontsize() >= 6
    assert all(page.contains(*axes.get_tightbbox().min) for axes in figure.axes)
    assert len(draw("lookahead-diagnosis", tables | {"lookahead-audit": tables["lookahead-audit"].iloc[:0]}).axes) == 4
    (only,) = draw("lookahead-diagnosis", {name: table.iloc[:0] for name, table in tables.items()}).axes
    assert "no finished cells" in only.texts[0].get_text()
