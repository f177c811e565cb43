"""The active-learning loop follows the thesis' protocol, and a cell is a function of its name and settings."""

import copy
import json

import numpy as np
import pytest
import torch
from conftest import bench, run_words

from bench import strategies
from bench.core import records
from bench.core.errors import UserError
from bench.core.journal import Journal
from bench.learn import data
from bench.studies.lookahead import RECORD, Cell
from bench.studies.lookahead import run as lookahead


def run(cell, settings, root, tmp_path):
    journal = Journal(tmp_path / "resume.pt", "test", torch.device("cpu"))
    return lookahead.run(cell, settings, data.load("digits", root), torch.device("cpu"), journal)


@pytest.fixture(scope="module")
def results(settings, root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    strategies = ("random", "entropy")
    return {name: run(Cell("digits", "wrn", 8, "l2", name, 0), settings, root, folder) for name in strategies}


def test_labels_are_bought_as_the_protocol_says(results, settings):
    protocol = settings["protocol"]
    for found in results.values():
        assert [c["labelled"] for c in found["cycles"]] == [12, 17, 22]
        bought = [found["initial"], *(c["queried"] for c in found["cycles"])]
        assert [len(batch) for batch in bought] == [protocol["initial"], 5, 5, 0]
        together = [index for batch in bought for index in batch]
        assert len(set(together)) == len(together)
        assert all(0 <= index < 1300 for index in together)


def test_queries_come_from_a_fresh_subset_of_the_unlabelled_pool(results):
    found = results["entropy"]
    labelled = np.array(found["initial"])
    subsets = []
    for cycle in found["cycles"][:-1]:
        subset = lookahead._subset(0, cycle["cycle"], labelled, 1300, 40)
        assert len(subset) == len(set(subset)) == 40
        assert not set(subset) & set(labelled)
        assert set(cycle["queried"]) <= set(subset)
        labelled = np.concatenate([labelled, cycle["queried"]])
        subsets.append(set(subset))
    assert len(subsets[0] & subsets[1]) < 10  # drawn anew from all of the pool: 40 * 40 / 1288 expected


def test_a_subset_larger_than_the_pool_is_the_pool():
    assert sorted(lookahead._subset(0, 0, np.array([1, 3]), 6, 100)) == [0, 2, 4, 5]


def test_strategies_of_one_seed_start_alike_and_then_part(results):
    random, entropy = results["random"], results["entropy"]
    assert random["initial"] == entropy["initial"]
    assert random["cycles"][0]["test_accuracy"] == entropy["cycles"][0]["test_accuracy"]
    assert random["cycles"][0]["queried"] != entropy["cycles"][0]["queried"]
    assert random["cycles"][1]["train_loss"] != entropy["cycles"][1]["train_loss"]


def test_the_initial_set_is_uniform_not_balanced(root, settings):
    labels = data.load("digits", root).labels("train").numpy()
    from bench.core.seeds import stream

    counts = [len(set(labels[stream(seed, "data", "initial").permutation(1300)[:10]])) for seed in range(50)]
    assert 5.5 < np.mean(counts) < 7.5  # ten uniform draws from ten classes show 6.5 of them on average


def test_warm_start_keeps_weights_and_cold_start_does_not(cell, settings, root, tmp_path, monkeypatch):
    starts = []
    fit = strategies.usual_fit

    def spy(net, *words, **more):
        starts.append(copy.deepcopy(net.state_dict()))
        fit(net, *words, **more)
        starts.append(copy.deepcopy(net.state_dict()))

    monkeypatch.setattr(strategies, "usual_fit", spy)

    def same(a, b):
        return all(torch.equal(a[name], b[name]) for name in a)

    run(cell, settings, root, tmp_path)
    assert same(starts[1], starts[2])
    assert same(starts[3], starts[4])
    starts.clear()
    cold = settings | {"protocol": settings["protocol"] | {"start": "cold"}}
    (tmp_path / "resume.pt").unlink()
    run(cell, cold, root, tmp_path)
    assert not same(starts[1], starts[2])
    assert not same(starts[0], starts[2])


def test_scoring_augmented_views_changes_the_query_only_if_the_recipe_augments(cell, settings, root, tmp_path):
    def queried(view, augment):
        changed = copy.deepcopy(settings)
        changed["protocol"] |= {"view": view, "cycles": 2}
        changed["recipe"] |= {"augment": augment, "epochs": 1}
        return run(cell, changed, root, tmp_path)["cycles"][0]["queried"]

    assert queried("clean", "none") == queried("augmented", "none")
    assert queried("clean", "flip-crop") != queried("augmented", "flip-crop")


def test_a_diverged_run_starts_again_at_the_fallback_rate_and_says_so(cell, settings, root, tmp_path):
    wild = settings | {"recipe": settings["recipe"] | {"lr": 1e30, "fallback_lr": settings["recipe"]["lr"]}}
    found = run(cell, wild, root, tmp_path)
    assert found["diverged"] == {"cycle": 0, "epoch": found["diverged"]["epoch"], "learning_rate": 1e30}
    assert found["learning_rate"] == settings["recipe"]["lr"]
    (tmp_path / "resume.pt").unlink()
    assert found["cycles"] == run(cell, settings, root, tmp_path)["cycles"]


def test_divergence_without_a_fallback_fails_and_says_what_to_do(cell, settings, root, tmp_path):
    wild = settings | {"recipe": settings["recipe"] | {"lr": 1e30, "fallback_lr": None}}
    with pytest.raises(UserError, match=r"recipes\.l2\.fallback_lr"):
        run(cell, wild, root, tmp_path)
    with pytest.raises(UserError, match=r"recipes\.l2\.fallback_lr"):  # a key of the configuration, not the cell's axis
        run(Cell("digits", "wrn", 8, "l2+lr=1e+30", "entropy", 0), wild, root, tmp_path)
    worse = settings | {"recipe": settings["recipe"] | {"lr": 1e31, "fallback_lr": 1e30}}
    with pytest.raises(UserError, match="at learning rate 1e\\+30"):
        run(cell, worse, root, tmp_path)


def test_divergence_that_only_evaluation_shows_is_divergence(cell, settings, root, tmp_path):
    """A rate at which the batches stay finite, thanks to batch normalisation, and the test images do not."""
    wild = settings | {"recipe": settings["recipe"] | {"lr": 30.0, "schedule": "constant", "epochs": 2, "batch": 128}}
    for lr in (30.0, 100.0, 1e3, 1e4, 1e5, 1e6):
        wild["recipe"] = wild["recipe"] | {"lr": lr, "fallback_lr": settings["recipe"]["lr"] / 10}
        (tmp_path / "resume.pt").unlink(missing_ok=True)
        found = run(cell, wild, root, tmp_path)
        assert all(np.isfinite(done["test_loss"]) for done in found["cycles"])
        if found["diverged"]:
            break
    else:
        pytest.fail("none of the rates diverged")


def test_a_run_says_whether_only_its_times_mean_anything(settings, root, tmp_path):
    once = settings | {"protocol": settings["protocol"] | {"cycles": 1}}
    for strategy, timed in (("naive", False), ("naive+timed=sample", True), ("naive+epochs=2+timed=sample", True)):
        found = run(Cell("digits", "wrn", 8, "l2", strategy, 0), once, root, tmp_path)
        assert found["only_timed"] is timed
        (tmp_path / "resume.pt").unlink()


def test_a_single_cycle_queries_nothing(cell, settings, root, tmp_path):
    once = settings | {"protocol": settings["protocol"] | {"cycles": 1}}
    assert [done["queried"] for done in run(cell, once, root, tmp_path)["cycles"]] == [[]]


def test_a_batch_that_cannot_be_normalised_says_what_to_change(settings, root, tmp_path):
    odd = settings | {"recipe": settings["recipe"] | {"batch": 11}}  # 12 labels: a rest of one image of one pixel
    with pytest.raises(UserError, match="leaves no rest of 1"):
        run(Cell("digits", "resnet18", 1, "l2", "random", 0), odd, root, tmp_path)


def test_more_labels_than_images_is_refused(cell, settings, root, tmp_path):
    greedy = settings | {"protocol": settings["protocol"] | {"initial": 1300}}
    with pytest.raises(UserError, match="1300 training images"):
        run(cell, greedy, root, tmp_path)


def test_the_same_cell_twice_gives_the_same(cell, settings, root, tmp_path, results):
    assert json.dumps(run(cell, settings, root, tmp_path)) == json.dumps(results[cell.strategy])


@pytest.mark.slow
def test_the_same_cell_twice_gives_the_same_bytes_and_a_full_account(cell, settings, root, tmp_path):
    outs = [tmp_path / name / "x.json" for name in "ab"]
    for out in outs:
        result = bench(*run_words(cell, settings, root, out))
        assert result.returncode == 0, result.stderr
    assert outs[0].read_bytes() == outs[1].read_bytes()
    record = records.read(outs[0], RECORD)
    assert record["only_timed"] is False
    assert record["cell"] == {
        "dataset": "digits", "net": "wrn", "width": 8, "recipe": "l2", "strategy": "entropy", "seed": 0,
    }  # fmt: skip
    assert record["data"]["train"] == 1300
    assert record["settings"] == settings
    meta = json.loads((tmp_path / "a/x.meta.json").read_text())
    assert set(meta["seconds"]) == {"train", "query", "evaluate", "total"}
    assert meta["seconds"]["total"] == pytest.approx(
        sum(meta["seconds"][k] for k in ("train", "query", "evaluate")), abs=0.01
    )
    assert {name: len(steps) for name, steps in meta["seconds_per_step"].items()} == {
        "train": 3, "query": 2, "evaluate": 3,
    }  # fmt: skip
    assert meta["attempts"] == 1
    assert meta["peak_memory_mb"] > 50
    assert {"git", "versions", "threads", "device", "code", "host"} <= set(meta)
    assert meta["data"]["checksum"] == record["data"]["checksum"]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["x.json", "x.json.resume.lock", "x.meta.json"]
