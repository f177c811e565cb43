"""A whole study written into a copy of the tree runs to its table and figure, and no other file changes."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import REPO
from test_workflow import copy_of, planned, run, snakemake

pytestmark = pytest.mark.slow

FILES = {
    "__init__.py": '''
"""A toy: does the mean of n coin flips come close to a half?"""
from dataclasses import dataclass

from bench.core import cell
from bench.core.study import Departure

TABLES = ("toy-means", "toy-claims")
RECORD = {"type": "object", "required": ["mean"]}


@dataclass(frozen=True, order=True)
class Cell(cell.Cell):
    PATTERN = "flips-{flips}/seed-{seed}"
    flips: int
    seed: int


def cells(config):
    return sorted(Cell(n, seed) for n in config["toy"]["flips"] for seed in config["toy"]["seeds"])


def settings(config, cell):
    return {"bias": config["toy"]["bias"]}


def uses(cell):
    return {"datasets": [], "nets": [], "strategies": []}


def problems(config):
    if max(config["toy"]["flips"]) > 10**6:
        yield "toy.flips", "that many would take all day"


def departures(config):
    return [Departure("coin", "bias", str(config["toy"]["bias"]), "0.5")] if config["toy"]["bias"] != 0.5 else []
''',
    "schema.yaml": """
description: "A toy."
type: object
additionalProperties: false
default: {}
properties:
  seeds: { $ref: "#/$defs/seeds", default: [0, 1, 2], description: "Seeds." }
  flips: { description: "How many.", type: array, items: { $ref: "#/$defs/count" }, default: [10, 1000] }
  bias: { description: "Of the coin.", type: number, default: 0.5 }
$defs:
  count: { type: integer, minimum: 1 }
""",
    "run.py": '''
"""Flip, and save half-way."""
from bench.core.seeds import stream


def run(cell, settings, data, device, journal):
    assert data is None
    with journal.clock("flip", 0):
        heads = stream(cell.seed, "flips").random(cell.flips) < settings["bias"]
    (journal.scratch() / "heads").write_bytes(heads.tobytes())
    journal.save({"done": 1})
    return {"mean": float(heads.mean())}
''',
    "tables.py": '''
"""One row per cell, and the claims."""
import pandas as pd

from bench.report import claims


def tables(records, metas, config):
    rows = [record["cell"] | {"mean": record["mean"]} for record in records]
    frames = {"toy-means": pd.DataFrame(rows, columns=["flips", "seed", "mean"])}
    return frames | {"toy-claims": claims.ledger("toy", frames, config)}
''',
    "claims.csv": """claim,where,statement,published,quantity,holds_above,holds_below,source
half,fig. 1,the mean is a half,a half,mean,0.4,0.6,common sense
""",
    "claims.py": '''
"""The mean of many flips."""
from bench.report.claims import Measured


def measure(claim, frames, config):
    means = frames["toy-means"]
    return [Measured(group["mean"], setting=f"{n} flips", unit="") for n, group in means.groupby("flips")]
''',
    "figures/__init__.py": "",
    "figures/toy_1.py": '''
"""Toy fig. 1: means against flips."""
from matplotlib.figure import Figure

NAME = "toy-1"
TABLES = ("toy-means",)
TITLE = "Means of coin flips"


def draw(tables):
    figure = Figure(layout="constrained")
    axes = figure.subplots()
    axes.semilogx(tables["toy-means"]["flips"], tables["toy-means"]["mean"], "o")
    return figure
''',
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    tree = copy_of(REPO, tmp_path_factory.mktemp("toy") / "tree")
    for name, text in FILES.items():
        path = tree / "bench/studies/toy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip())
    (tree / "mine.yaml").write_text(yaml.safe_dump({"scale": "mine", "toy": {"bias": 0.8, "flips": [10, 10000]}}))
    return tree


def test_it_runs_to_its_table_and_figure(tree):
    snakemake(tree, "toy", "--cores", "2", "--configfile", "mine.yaml")
    means = pd.read_csv(tree / "results/mine/tables/toy-means.csv")
    assert len(means) == 2 * 3
    assert (tree / "figures/mine/toy-1.png").is_file()
    claims = pd.read_csv(tree / "results/mine/tables/toy-claims.csv").set_index("setting")
    assert claims.loc["10000 flips", "verdict"] == "not supported"  # 0.8 is no half
    assert claims.loc["10 flips", "verdict"] == "inconclusive"
    assert not list((tree / "results/mine/resume").rglob("*.scratch"))
    assert planned(tree, "toy", "--configfile", "mine.yaml") == {}


def test_the_command_line_and_the_configuration_know_it(tree):
    assert "toy" in run(tree, "status", "--scale", "mine.yaml")
    run(tree, "run", "toy", "flips-7/seed-3", "--scale", "mine.yaml", "--out", "my/x.json")
    assert (tree / "my/x.json").is_file()
    (tree / "wrong.yaml").write_text("scale: wrong\ntoy: {flips: [0]}\n")
    assert "toy.flips.0: found 0; allowed: a number >= 1" in snakemake(
        tree, "-n", "--configfile", "wrong.yaml", check=False
    )
    (tree / "wrong.yaml").write_text("scale: wrong\ntoy: {flips: [10000000]}\n")
    assert "toy.flips: that many would take all day" in snakemake(tree, "-n", "--configfile", "wrong.yaml", check=False)


def test_its_edits_touch_no_other_study(tree, tmp_path):
    edited = tmp_path / "tree"
    shutil.copytree(tree, edited)
    path = edited / "bench/studies/toy/run.py"
    path.write_text(path.read_text().replace("< settings", "<= settings"))
    assert planned(edited, "toy", "--configfile", "mine.yaml") == {"cell": 6, "toy_tables": 1, "toy-1": 1, "toy": 1}
