"""Figures and claims of the early-time experiments, from small cells and from none."""

import pytest
import torch

from bench.core import config, csv, registry, study
from bench.learn import data
from bench.report import figure
from bench.studies.theory import EXPERIMENTS, claims, tables
from bench.studies.theory.task import Task

GROWN = {"dimensions": [4, 8], "factor": 4, "alpha": 0.2}
SIZES = {
    "early-time": {"d": 4, "train": 40, "test": 20, "width": 8, "rate": 0.25, "time": 4, "points": 5},
    "early-time-closeness": GROWN | {"rates": [0.25, 2]},
    "early-time-concentration": GROWN,
    "early-time-dimension": GROWN | {"rate": 0.25, "test": 20},
    "early-time-images": {"train": 40, "test": 20, "width": 8, "channels": 16, "rate": 0.5, "steps": 5, "rows": 4},
    "early-time-jacobian": GROWN | {"radii": [1]},
    "early-time-kernel": GROWN,
    "early-time-norm": {"dimensions": [4], "points": 30, "alpha": 0.2, "rate": 0.25, "rows": 4},
}


@pytest.fixture(scope="module")
def frames(root, tmp_path_factory):
    digits, records = data.load("digits", root), []
    for name, sizes in SIZES.items():
        module, _ = registry.load(EXPERIMENTS, name)
        for setting in module.SETTINGS[-1:] if name == "early-time-images" else module.SETTINGS:
            for seed in (0, 1):
                task = Task(setting, sizes, seed, torch.device("cpu"), digits)
                rows = [part | row for part in module.parts(sizes) for row in module.measure(task, part)]
                cell = {"experiment": name, "setting": setting, "seed": seed}
                records.append({"scale": "small", "cell": cell, "rows": rows})
    folder, read = tmp_path_factory.mktemp("tables"), {}
    for name in SIZES:  # as figures get them
        csv.write(tables.rows(name, records), folder / f"{name}.csv")
        read[f"theory-{name}"] = csv.read(folder / f"{name}.csv")
    return read


@pytest.mark.parametrize("name", SIZES)
def test_draws_from_small_cells_and_from_none(name, frames):
    table = f"theory-{name}"
    drawn = figure.draw(table, frames)
    assert len(drawn.axes) > 0
    assert all(axes.lines for axes in drawn.axes)
    nothing = figure.draw(table, {table: tables.rows(name, [])})
    assert "No finished cells" in nothing.axes[0].texts[0].get_text()


@pytest.mark.parametrize("name", SIZES)
def test_every_claim_is_measured(name, frames):
    whole = config.check({"scale": "small", "theory": {"experiments": {}}}, "tests")
    listed = csv.read(study.folder("theory") / "claims.csv")
    mine = listed[listed["experiment"] == name].to_dict("records")
    assert mine
    for claim in mine:
        for found in claims.measure(claim, frames, whole):
            assert len(found.values) == 2  # a value per seed
