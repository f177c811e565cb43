"""The theory study itself: every experiment has all its parts; rates and kinds by hand; killed runs go on."""

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import torch

from bench.core import config, csv, registry, study
from bench.core.errors import UserError
from bench.studies import theory
from bench.studies.theory import EXPERIMENTS, Cell, claims, rates, run, tables

NAMES = sorted(registry.components(EXPERIMENTS))
CLAIMED = csv.read(study.folder("theory") / "claims.csv").astype(object).fillna("")
FULL = config.check({"scale": "paper"}, "tests")["theory"]["experiments"]
QUICK = config.load("quick")["theory"]["experiments"]


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_all_its_parts(name):
    component = registry.components(EXPERIMENTS)[name]
    module, _ = registry.load(EXPERIMENTS, name)
    for word in ("Statement:", "Where:", "Refuted by:"):
        assert word in module.__doc__
    assert f"theory-{name}" in study.all_figures()
    assert set(FULL[name]["settings"]) <= set(component.constants["SETTINGS"])
    assert QUICK[name] != FULL[name], "no entry in config/quick.yaml"
    assert len(module.parts(FULL[name])) > 0
    assert (CLAIMED["experiment"] == name).any()
    assert not csv.WORDS & set(component.constants["COLUMNS"]), "a number of this name would be read as text"


@pytest.mark.parametrize("claim", CLAIMED.to_dict("records"), ids=CLAIMED["claim"])
def test_every_claim_names_columns_that_there_are(claim):
    columns = ["setting", "seed", *registry.components(EXPERIMENTS)[claim["experiment"]].constants["COLUMNS"]]
    kind, _, column = claim["quantity"].partition(" ")
    assert kind in claims.KINDS
    assert {column, *claim["by"].split(), *filter(None, [claim["along"]])} <= set(columns)
    if claim["rows"]:
        pd.DataFrame({name: pd.Series(dtype=object) for name in columns}).query(claim["rows"])
    assert claim["holds_above"] != "" or claim["holds_below"] != ""


def test_claims_are_named_once():
    assert CLAIMED["claim"].is_unique


def frame_of(**columns) -> pd.DataFrame:
    return pd.DataFrame({"scale": "tiny", "setting": "a", **columns})


def test_slopes_of_a_power_law():
    m = np.array([1, 10, 100] * 2)
    rows = frame_of(seed=[0] * 3 + [1] * 3, m=m, error=[3.0, 0.3, 0.03, 5.0, 5.0 * 10**-0.5, 0.5])
    found = rates.slopes(rows, "error", "m")
    assert found.tolist() == pytest.approx([-1, -0.5])
    rows.loc[0, "error"] = 0.0  # no logarithm: left out
    assert rates.slopes(rows, "error", "m")[0] == pytest.approx(-1)
    assert rates.slopes(rows[rows["m"] == 1], "error", "m").empty


def test_kinds_by_hand():
    rows = frame_of(seed=[0, 0, 1, 1], x=[1.0, 4.0, 2.0, 8.0], y=[1.0, 2.0, 5.0, 3.0])
    by_hand = {"largest": [4, 8], "smallest": [1, 2], "mean": [2.5, 5], "ratio": [np.log(2), np.log(4)]}
    for kind, expected in by_hand.items():
        assert list(claims.KINDS[kind](rows, "x", "")) == pytest.approx(expected)
    assert list(claims.KINDS["correlation"](rows, "x", "y")) == pytest.approx([1, -1])


def test_unknown_names_are_one_line():
    given = config.check({"scale": "paper"}, "tests")
    with pytest.raises(UserError, match="unknown experiment 'sarch'; did you mean 'search'"):
        theory.settings(given, Cell("sarch", "uniform", 0))
    given["theory"]["experiments"]["search"]["settings"] = ["uniformly"]
    assert [where for where, _ in theory.problems(given)] == ["theory.experiments.search.settings"]


class Memory:
    """A journal that forgets its run after so many parts."""

    def __init__(self, state: dict | None = None, parts: int = 10**6):
        self.state, self.parts = state, parts

    @contextmanager
    def clock(self, *_):
        yield

    def save(self, state: dict) -> None:
        self.state = state
        if state["done"] == self.parts:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [1, 2])
def test_a_run_that_was_killed_goes_on_to_the_same(after):
    cell, sizes = Cell("search", "uniform", 0), QUICK["search"]
    cpu = torch.device("cpu")
    unbroken = run.run(cell, sizes, None, cpu, Memory())
    broken = Memory(parts=after)
    with pytest.raises(KeyboardInterrupt):
        run.run(cell, sizes, None, cpu, broken)
    assert run.run(cell, sizes, None, cpu, Memory(broken.state)) == unbroken
    record = {"scale": "tiny", "cell": {"experiment": "search", "setting": "uniform", "seed": 0}, **unbroken}
    assert len(tables.rows("search", [record])) == len(unbroken["rows"])
