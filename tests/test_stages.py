"""A large cell shared by several jobs: the networks, the tiles of their kernels, then the cell itself."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from conftest import REPO
from test_workflow import copy_of, planned, snakemake

from bench.core.config import check
from bench.core.errors import UserError
from bench.core.journal import Journal
from bench.core.run import run, run_stage
from bench.learn import data as datasets
from bench.studies import pntk

CONFIG = {
    "scale": "shared",
    "pntk": {
        "seeds": [0],
        "jobs": 3,
        "recipes": {"sgd": {"epochs": 2, "batch": 50}},
        "measures": {"full": {"train": 300, "test": 20, "moments": [0, 2], "precision": "float32"}},
        "panels": {
            "thesis-3.9-wrn-16": {
                "measure": "full",
                "dataset": "digits",
                "nets": ["wrn-16"],
                "widths": [1],
                "recipes": ["sgd+rate=spectrum"],
            }
        },
    },
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    datasets.prepare("digits", root)
    return root


def test_only_a_kernel_on_disk_is_shared_and_only_by_more_than_one_job():
    config = check(CONFIG, "tests")
    (cell,) = pntk.cells(config)
    assert pntk.stages(config, cell) == [["networks"], ["tiles-0-of-3", "tiles-1-of-3", "tiles-2-of-3"]]
    config["pntk"]["jobs"] = 1
    assert pntk.stages(config, cell) == []
    config["pntk"] |= {"jobs": 3}
    config["pntk"]["measures"]["full"]["storage"] = "memory"
    assert pntk.stages(config, cell) == []


def test_stages_give_the_record_of_one_job_and_their_time_counts(root, tmp_path):
    config = check(CONFIG, "tests")
    (cell,) = pntk.cells(config)
    settings = pntk.settings(config, cell)
    load = datasets.source(["digits"], settings, root)
    given = {"where": "cpu", "save_every": 1}
    whole = run("pntk", "shared", cell, settings, load, tmp_path / "whole.json", **given)
    out = tmp_path / "results/shared/runs/pntk/cell.json"
    with pytest.raises(UserError, match="do the stage `networks` first"):
        run_stage("pntk", "tiles-0-of-2", cell, settings, load, out, **given)
    with pytest.raises(UserError, match="allowed: networks, tiles-<k>-of-<jobs>"):
        run_stage("pntk", "tilse", cell, settings, load, out, **given)
    for stage in ("networks", "tiles-0-of-2", "tiles-0-of-2"):  # a stage that is done is not done again
        run_stage("pntk", stage, cell, settings, load, out, **given)
    folder = tmp_path / "results/shared/resume/pntk/cell.scratch"
    spent = torch.load(folder / "tiles-0-of-2.pt", weights_only=True)["laps"]["kernel"]
    assert set(spent) == {0, 2}
    run("pntk", "shared", cell, settings, load, out, **given)  # does by itself what the second part left
    assert out.read_bytes() == whole.read_bytes()
    assert not folder.exists()
    account = json.loads(out.with_suffix(".meta.json").read_text())
    assert account["seconds_per_step"]["kernel"][0] > spent[0]
    assert account["seconds"]["train"] > 0


def test_a_measure_without_stages_says_so(root, tmp_path):
    config = check(CONFIG, "tests")
    cell = pntk.Cell("kernels", "digits", "fcn", 8, "sgd", 0)
    settings = pntk.settings(config, cell)
    load = datasets.source(["digits"], settings, root)
    with pytest.raises(UserError, match="has no stages; leave --stage out"):
        run_stage("pntk", "networks", cell, settings, load, tmp_path / "a.json", where="cpu")


def test_time_of_other_jobs_is_added_by_kind_and_step(tmp_path):
    theirs, ours = (Journal(tmp_path / name, "same", torch.device("cpu")) for name in ("theirs.pt", "ours.pt"))
    theirs.laps = {"kernel": {0: 2.0, 5: 3.0}}
    ours.laps = {"kernel": {0: 1.0}, "solve": {0: 4.0}}
    theirs.save({})
    ours.absorb(theirs.path)
    assert ours.laps == {"kernel": {0: 3.0, 5: 3.0}, "solve": {0: 4.0}}


@pytest.mark.slow
def test_the_workflow_killed_between_its_jobs_goes_on_to_the_same_bytes(tmp_path):
    tree = copy_of(REPO, tmp_path / "tree")
    (tree / "shared.yaml").write_text(yaml.safe_dump(CONFIG))
    alone = {**CONFIG, "scale": "alone", "pntk": {**CONFIG["pntk"], "jobs": 1}}
    (tree / "alone.yaml").write_text(yaml.safe_dump(alone))
    assert planned(tree, "pntk_tables", "--configfile", "shared.yaml") == {
        **{"data": 1, "stage": 4, "cell": 1, "pntk_tables": 1}
    }
    words = ("pntk_tables", "--cores", "2", "--configfile")
    with subprocess.Popen(
        [sys.executable, "-m", "snakemake", *words, "shared.yaml"],
        **{"cwd": tree, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True},
    ) as process:
        until = time.monotonic() + 300
        while not list((tree / "results/shared/stages").rglob("tiles-*.done")) and time.monotonic() < until:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    (path,) = [Path(str(cell)) for cell in pntk.cells(check(CONFIG, "tests"))]
    record = tree / f"results/shared/runs/pntk/{path}.json"
    assert not record.exists()
    snakemake(tree, "--unlock", "--configfile", "shared.yaml")
    snakemake(tree, *words, "shared.yaml", "--rerun-incomplete")
    snakemake(tree, *words, "alone.yaml")
    records = (tree / f"results/{scale}/runs/pntk/{path}.json" for scale in ("shared", "alone"))
    found, expected = (json.loads(record.read_text()) for record in records)
    assert found.pop("scale") != expected.pop("scale")
    assert found == expected
    assert not list((tree / "results/shared/stages").rglob("*.done"))
    assert not list((tree / "results/shared/resume").rglob("*.scratch"))
    assert planned(tree, "pntk_tables", "--configfile", "shared.yaml") == {}
