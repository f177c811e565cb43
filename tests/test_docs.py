"""Documents repeat what the code knows, and every command in them can be typed."""

import re
import shlex
import subprocess
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import REPO

from bench import __main__ as cli
from bench.core import config as configuration
from bench.core import study
from bench.studies.lookahead import docs as look
from bench.tools import docs

TEXTS = {path.relative_to(REPO): path.read_text() for path in docs.documents()}
README = TEXTS[Path("README.md")]
COMMANDS = sorted({found for text in TEXTS.values() for found in re.findall(r"python -m bench [^\n`#]*[^\n`# ]", text)})


def test_the_configuration_manual_is_current():
    assert (REPO / docs.MANUAL).read_text() == docs.manual(), "type: python -m bench docs"


@pytest.mark.parametrize("path", TEXTS, ids=str)
def test_blocks_are_current(path):
    assert TEXTS[path] == docs.filled(TEXTS[path]), "type: python -m bench docs"


def test_every_block_has_a_place():
    places = [name for text in TEXTS.values() for name in re.findall("<!-- begin ([a-z0-9-]+) -->", text)]
    assert set(places) == set(docs.blocks())


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_documents_parse(command):
    assert cli._parser().parse_args(shlex.split(command)[3:])


@pytest.mark.parametrize("path", [*TEXTS, Path("CONTRIBUTING.md")], ids=str)
def test_links_lead_somewhere(path):
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", (REPO / path).read_text()):
        there = (REPO / path).parent / target if target else REPO / path
        assert there.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", there.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_priced_jobs_are_those_of_scale_paper():
    config = configuration.load("paper")
    priced = pd.read_csv(REPO / "results/perf/plan-paper.csv")
    for name in study.names():
        counts = Counter(
            " ".join(str(value) for axis, value in vars(cell).items() if axis not in ("strategy", "seed"))
            for cell in study.load(name).cells(config)
        )
        assert priced[priced["study"] == name].set_index("setting")["jobs"].to_dict() == counts


def test_naive_look_ahead_is_priced_apart():
    # 15 epochs for each of 4,000 candidates at 101, 121 .. 261 images; 200 epochs at 100, 120 .. 280
    times = 15 * 4000 * sum(range(101, 281, 20)) / (200 * sum(range(100, 281, 20)))
    assert f"train on {times:.0f} times as many images" in look.retraining()


def test_targets_named_in_the_readme_exist():
    named = {name for text in TEXTS.values() for name in re.findall(r"snakemake --cores all ([a-z][\w.-]*)", text)}
    named |= {name for text in TEXTS.values() for name in re.findall(r"FIG=(\S+?)[ `]", text)}
    listed = subprocess.run(
        ["snakemake", "--list-target-rules"], cwd=REPO, capture_output=True, text=True
    ).stdout.split()
    assert named
    assert named <= set(listed)


def test_nothing_of_one_machine_is_tracked():
    tracked = subprocess.run(["git", "ls-files"], cwd=REPO, capture_output=True, text=True).stdout.split()
    for path in tracked:
        assert not path.startswith(("data/", "results/quick", "figures/quick")), path


@pytest.mark.parametrize("path", ["README.md", "docs/kernels.md"])
def test_the_example_of_kernels_runs(path, tmp_path, monkeypatch):
    (code,) = re.findall("```python\n(.*?)```", TEXTS[Path(path)], re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(code, names)
    assert names["theta"].shape == (80, 80)
    assert names["cross"].shape == (4, 8)
    assert names["found"].shape == (4, 10)
    assert (tmp_path / "my/theta.npy").is_file() == (path != "README.md")


def test_configurations_in_the_documents_are_valid():
    found = [
        yaml.safe_load(code) for text in TEXTS.values() for code in re.findall("```yaml\n(.*?)```", text, re.DOTALL)
    ]
    assert found
    for raw in found:
        assert configuration.check(raw, "the document")["scale"] == raw["scale"]
