"""What the results page of look-ahead says of made runs: baselines, divergence, rivals, verdicts, departures."""

import re

import pandas as pd
import pytest
from test_claims import CURVES, LISTED, PANELS, SAMPLE, TIMED, claims, config_of

from bench.core import config as configuration
from bench.core import csv
from bench.report import pages
from bench.studies import lookahead
from bench.studies.lookahead import docs, significance, tables
from bench.studies.lookahead.choices import choices
from bench.studies.lookahead.tables import PUBLISHED


@pytest.fixture
def cpu(tmp_path, monkeypatch):
    """A checkout whose scale cpu has the made runs of the tests of claims, one of them diverged."""
    curves = CURVES.assign(diverged=(CURVES["strategy"] == "ntk") & (CURVES["seed"] == 0))
    config = config_of(PANELS)
    departing = [vars(each) for each in lookahead.departures(config)]
    made = {
        "lookahead-summary": tables.summary(curves, PANELS),
        "lookahead-areas": tables.areas(curves, PANELS),
        "lookahead-choices": choices(curves, LISTED),
        "lookahead-claims": claims(curves, TIMED, config),
        "lookahead-costs": pd.DataFrame({"n": [3, 2], "total_seconds": [1000.0, 300.0]}),
        "lookahead-departures": pd.DataFrame(departing).assign(scale="cpu"),
    }
    for name, frame in made.items():
        csv.write(frame, tmp_path / f"results/cpu/tables/{name}.csv")
    monkeypatch.setattr(configuration, "ROOT", tmp_path)
    return tmp_path


def test_results_say_the_baseline_and_what_diverged(cpu):
    text = docs.results()
    assert re.search(r"`ntk` \|.*\| `random` \|.*\| 3 \(1 diverged\) \|", text)
    assert re.search(r"`entropy` \|.*\| `random` \|.*\| 3 \|", text)
    assert "took 1.0 hours of one core" in text
    assert "\nData: mnist, 1,300 train / 497 test." in text


def test_the_main_dataset_comes_first(cpu):
    other = CURVES[CURVES["strategy"] == "random"].assign(
        dataset="cifar100", data="cifar100, 9 train / 9 test, partial"
    )
    panels = PANELS | {"choices": PANELS["thesis-2.1b"] | {"dataset": "cifar100", "strategies": ["random"]}}
    curves = pd.concat([CURVES, other.assign(test_accuracy=1.0)])
    for name, frame in {"summary": tables.summary(curves, panels), "areas": tables.areas(curves, panels)}.items():
        csv.write(frame, cpu / f"results/cpu/tables/lookahead-{name}.csv")
    datasets = re.findall(r"^\| (\w+(?: \(partial\))?) \|", docs.results(), re.MULTILINE)[1:]
    assert datasets == ["mnist"] * (len(datasets) - 1) + ["cifar100 (partial)"]


def test_claims_say_their_rivals_and_marks(cpu):
    rows = {line.split(" | ")[0]: line for line in pages.claims_table("lookahead").splitlines()}
    assert f"(`{SAMPLE}` over `ntk`, extrapolated from a sample of the candidates)" in rows["| 2.1a"]
    assert "(`ntk` minus `entropy`, the best of `entropy`, `random`; 1 diverged)" in rows["| A.1a"]
    (absent,) = [line for line in rows if line.startswith("Not measured")]
    assert "2.1b-gp" in absent
    assert "A.1a" not in absent


def test_every_measured_claim_is_under_its_verdict(cpu):
    rows = re.findall(
        r"^\| ([^|]+) \| (.+?) \(`.*\*\*([a-z ]+)\*\* \|[^|]*\|$", pages.claims_table("lookahead"), re.MULTILINE
    )
    assert {verdict for *_, verdict in rows} >= {"supported", "inconclusive", "not comparable"}
    for figure, statement, verdict in rows:
        line = rf"^- \*\*{verdict.capitalize()}\*\* \(\d+\): .*{re.escape(f'{statement} ({figure})')}"
        if statement != "NTK beats random at every width":  # in one width only: overall, inconclusive
            assert re.search(line, pages.answer("lookahead"), re.MULTILINE)
    assert re.search(
        r"^- \*\*Inconclusive\*\*.*NTK beats random at every width", pages.answer("lookahead"), re.MULTILINE
    )


def test_table_2_1_without_runs_shows_the_published_p_alone(cpu):
    tests = significance.tests(CURVES[CURVES["strategy"] == "random"], PANELS)
    table = significance.thesis_2_1(tests, csv.read(PUBLISHED / "thesis-2.1.csv"))
    csv.write(table, cpu / "results/cpu/tables/thesis-2.1.csv")
    assert "| friedman | 0.0045 |  |  |  | not measured |  | not measured |" in docs.tests()


def test_choices_say_where_they_were_seen(cpu):
    assert docs.choices() == "No choice has finished runs of both its arms at this scale."
    arms = [CURVES.assign(recipe=recipe, dataset="cifar100") for recipe in ("l2", "l2+statistics=released")]
    curves = pd.concat(arms).assign(data="cifar100, 4,000 train / 2,000 test, partial")
    csv.write(choices(curves, LISTED), cpu / "results/cpu/tables/lookahead-choices.csv")
    where = r"\| `l2\+statistics=released` \| cifar100 \(partial\), `\S+`, `ntk`, width \d+ \|"
    assert re.search(where, docs.choices())


def test_departures_are_a_table_that_says_each_once(cpu):
    rows = [line.split(" | ") for line in pages.departures("lookahead").splitlines()[2:]]
    assert len(rows) == len({tuple(row[:3]) for row in rows})
    assert ["| seeds", "3", "6", "all |"] in rows
    assert any(row[0] == "| dataset" and row[3] == "2.2a |" for row in rows)


def test_only_figures_that_show_something_are_linked(cpu):
    assert docs.figures() == "None yet."
    (cpu / "figures/cpu").mkdir(parents=True)
    for name in ("thesis-2.1b", "thesis-2.3", "thesis-3.15"):  # the last has no panel here, fig. 2.2 no file
        (cpu / f"figures/cpu/{name}.png").touch()
    assert re.findall(r"^- \[([^]]+)\]\(\.\./figures/cpu/", docs.figures(), re.MULTILINE) == [
        "thesis-2.1b",
        "thesis-2.3",
    ]
