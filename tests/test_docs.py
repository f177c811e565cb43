"""Documents repeat what the code knows, and every command in them can be typed."""

import re
import shlex
import subprocess

import pandas as pd
import pytest
from conftest import REPO
from test_claims import CLAIMED, CURVES, PANELS, SAMPLE, TIMED

from bench import __main__ as cli
from bench import published
from bench.core import config as configuration
from bench.core import paths as grid
from bench.studies.lookahead.choices import choices
from bench.studies.lookahead.claims import claims
from bench.studies.lookahead.run import tables
from bench.tools import docs

COMMANDS = sorted(set(re.findall(r"python -m bench [^\n`#]*[^\n`# ]", docs.README.read_text())))


def test_the_configuration_manual_is_current():
    assert docs.MANUAL.read_text() == docs.manual(), "type: python -m bench docs"


def test_the_readme_s_blocks_are_current():
    text = docs.README.read_text()
    assert set(re.findall("<!-- begin ([a-z-]+) -->", text)) == set(docs.BLOCKS)
    assert text == docs.filled(text), "type: python -m bench docs"


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_readme_parse(command):
    assert cli._parser().parse_args(shlex.split(command)[3:])


def test_files_named_in_the_readme_exist():
    text = docs.README.read_text()
    for path in re.findall(r"\]\(([^)#]+)\)", text):
        assert (REPO / path).exists(), path


@pytest.fixture
def cpu(tmp_path, monkeypatch):
    """A checkout whose scale cpu has the made runs of the tests of claims, one of them diverged."""
    curves = CURVES.assign(diverged=(CURVES["strategy"] == "ntk") & (CURVES["seed"] == 0))
    made = {
        "summary": tables.summary(curves, PANELS, dict.fromkeys(PANELS, "seeds 3 (paper 6)") | {"thesis-2.1b": ""}),
        "areas": tables.areas(curves, PANELS),
        "choices": choices(curves, published.read("thesis-choices")),
        "claims": claims(curves, TIMED, PANELS, CLAIMED),
        "costs": pd.DataFrame({"n": [3, 2], "total_seconds": [1000.0, 300.0]}),
    }
    for name, frame in made.items():
        tables.write(frame, tmp_path / f"results/cpu/tables/lookahead-{name}.csv")
    monkeypatch.setattr(configuration, "ROOT", tmp_path)
    return tmp_path


def test_results_say_the_baseline_and_what_diverged(cpu):
    text = docs.cpu_results()
    assert re.search(r"`ntk` \|.*\| `random` \|.*\| 3 \(1 diverged\) \|", text)
    assert re.search(r"`entropy` \|.*\| `random` \|.*\| 3 \|", text)
    (data,) = [line for line in text.splitlines() if line.startswith("Data: ")]
    assert data.startswith("Data: digits, 1,300 train / 497 test. Not the paper's setting: thesis-2.1a, thesis-2.2a, ")
    assert data.endswith(": seeds 3 (paper 6).")
    assert "thesis-2.1b" not in data
    assert "took 1.0 hours of one core" in text


def test_the_main_dataset_comes_first(cpu):
    other = CURVES[CURVES["strategy"] == "random"].assign(
        dataset="cifar100", data="cifar100, 9 train / 9 test, partial"
    )
    panels = PANELS | {"choices": PANELS["thesis-2.1b"] | {"dataset": "cifar100", "strategies": ["random"]}}
    curves = pd.concat([CURVES, other.assign(test_accuracy=1.0)])
    for name, frame in {"summary": tables.summary(curves, panels), "areas": tables.areas(curves, panels)}.items():
        tables.write(frame, cpu / f"results/cpu/tables/lookahead-{name}.csv")
    datasets = re.findall(r"^\| (\w+(?: \(partial\))?) \|", docs.cpu_results(), re.MULTILINE)[1:]
    assert datasets == ["digits"] * (len(datasets) - 1) + ["cifar100 (partial)"]


def test_claims_say_their_rivals_and_marks(cpu):
    rows = {line.split(" | ")[0]: line for line in docs.cpu_claims().splitlines()}
    assert f"(`{SAMPLE}` over `ntk`)" in rows["| 2.1a"]
    assert "(extrapolated) |" in rows["| 2.1a"]
    assert "(`ntk` minus `entropy`, the best of `entropy`, `random`)" in rows["| 2.2a"]
    assert "(1 diverged) |" in rows["| 2.2a"]
    (absent,) = [line for line in rows if line.startswith("- Not measured")]
    assert "2.1b-gp" in absent
    assert "2.2a" not in absent


def test_every_measured_claim_is_under_its_verdict(cpu):
    text = docs.cpu_claims()
    rows = re.findall(r"^\| ([^|]+) \| (.+?) \(`.*\*\*([a-z ]+)\*\* \|$", text, re.MULTILINE)
    assert {verdict for *_, verdict in rows} >= {"supported", "inconclusive"}
    for figure, statement, verdict in rows:
        assert re.search(rf"^- {verdict.capitalize()}: .*{re.escape(f'{statement} ({figure})')}", text, re.MULTILINE)


def test_table_2_1_without_runs_shows_the_published_p_alone(cpu):
    tests = tables.tests(CURVES[CURVES["strategy"] == "random"], PANELS)
    tables.write(tables.thesis_2_1(tests, published.read("thesis-2.1")), cpu / "results/cpu/tables/thesis-2.1.csv")
    assert "| friedman | 0.0045 |  | not measured |  | not measured |" in docs.cpu_tests()


def test_choices_without_rows_are_a_sentence(cpu):
    assert docs.cpu_choices() == "No choice has finished runs of both its arms at this scale."


def test_choices_say_where_they_were_seen(cpu):
    arms = [CURVES.assign(recipe=recipe, dataset="cifar100") for recipe in ("l2", "l2+statistics=released")]
    curves = pd.concat(arms).assign(data="cifar100, 4,000 train / 2,000 test, partial")
    made = choices(curves, published.read("thesis-choices"))
    tables.write(made, cpu / "results/cpu/tables/lookahead-choices.csv")
    assert re.search(
        r"\| `l2\+statistics=released` \| cifar100 \(partial\), `\S+`, `ntk`, width \d+ \|", docs.cpu_choices()
    )


def test_only_figures_that_show_something_are_linked(cpu):
    assert docs.cpu_figures() == "Figures: none yet."
    (cpu / "figures/cpu").mkdir(parents=True)
    for name in ("thesis-2.1b", "thesis-2.3", "thesis-3.15"):  # the last has no panel here, fig. 2.2 no file
        (cpu / f"figures/cpu/{name}.png").touch()
    text = docs.cpu_figures()
    assert text.startswith("![look-ahead by four models on MNIST](figures/cpu/thesis-2.1b.png)\n\nFigures: ")
    assert re.findall(r" \[([^]]+)\]", text) == ["thesis-2.1b", "thesis-2.3"]


def test_the_priced_jobs_are_those_of_scale_paper():
    config = configuration.load("paper")
    cells = grid.cells(config["lookahead"]["panels"], config["seeds"])
    setting = ["dataset", "net", "width", "recipe"]
    counts = pd.DataFrame([vars(cell) for cell in cells]).groupby(setting).size()
    priced = pd.read_csv(REPO / "results/perf/plan-paper.csv").set_index(setting)["jobs"].sort_index()
    assert priced.to_dict() == counts.to_dict()


def test_naive_look_ahead_is_priced_apart():
    # 15 epochs for each of 4,000 candidates at 101, 121 .. 261 images; 200 epochs at 100, 120 .. 280
    times = 15 * 4000 * sum(range(101, 281, 20)) / (200 * sum(range(100, 281, 20)))
    assert f"train on {times:.0f} times as many images" in docs.retraining()


def test_targets_named_in_the_readme_exist():
    named = set(re.findall(r"snakemake --cores all ([a-z][\w.-]*)", docs.README.read_text()))
    listed = subprocess.run(
        ["snakemake", "--list-target-rules"], cwd=REPO, capture_output=True, text=True
    ).stdout.split()
    assert named
    assert named <= set(listed)


def test_nothing_of_one_machine_is_tracked():
    tracked = subprocess.run(["git", "ls-files"], cwd=REPO, capture_output=True, text=True).stdout.split()
    for path in tracked:
        assert not path.startswith(("data/", "results/quick", "figures/quick")), path


def test_the_example_of_kernels_runs(tmp_path, monkeypatch):
    (code,) = re.findall("```python\n(.*?)```", docs.README.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(code, names)
    assert names["theta"].shape == (80, 80)
    assert names["cross"].shape == (4, 8)
    assert names["found"].shape == (4, 10)
    assert (tmp_path / "my/theta.npy").is_file()
