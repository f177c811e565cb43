"""The NPC study's runs on a few digits: what is bought, trained and shared; killed runs; mistakes."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bench import nets
from bench.__main__ import main
from bench.core import digest, paths, records
from bench.core.config import check
from bench.core.errors import UserError
from bench.core.journal import Journal
from bench.core.run import run
from bench.core.seeds import stream, torch_stream
from bench.learn import data as datasets
from bench.learn.fixmatch import Settings, fit
from bench.learn.randaugment import OPERATIONS, Views
from bench.learn.train import evaluate, predict
from bench.learn.weights import load_text
from bench.strategies import Query, select
from bench.studies import npc
from bench.studies.npc import Cell
from bench.studies.npc import run as running
from bench.studies.npc.batches import MEASURES, measure

SHORT = {"steps": 36, "epoch": 12, "evaluations": 2, "batch": 6, "mu": 2, "lr": 0.3, "ema": 0.7, "threshold": 0.3}
PLACE = {"dataset": "digits", "net": "wrn-small+layers=1", "width": 8, "recipe": "fixmatch-darp", "mode": "steps"}
STRATEGIES = ["random", "margin+map=softmax", "albl", "badge", "npc", "npc+variant=paper"]
CONFIG = {
    "scale": "tiny",
    "npc": {
        "seeds": [1],
        "recipes": {
            "fixmatch-darp": SHORT | {"darp": True, "darp_refresh": 4, "darp_warm_up": 0},
            "fixmatch": SHORT | {"labels_of": "fixmatch-darp"},
            "supervised-weak": SHORT | {"mode": "supervised-weak", "labels_of": "fixmatch-darp"},
        },
        "protocol": {
            "digits": {"trials": 3, "query": 4, "queries": 2, "pool": 40, "test": 50, "batches": 5}
            | {"flip": False, "operations": "digits", "cutout": 0.3}
        },
        "panels": {
            "npc-table-1": PLACE | {"strategies": STRATEGIES},
            "npc-table-3-zero-12": PLACE | {"mode": "zero-12", "strategies": ["random", "badge", "npc"]},
            "npc-table-3-single-14": PLACE | {"mode": "single-14", "strategies": ["badge", "npc"]},
            "controls-fixmatch": PLACE | {"recipe": "fixmatch", "strategies": ["random", "badge"]},
            "controls-supervised-weak": PLACE | {"recipe": "supervised-weak", "strategies": ["random", "badge"]},
            "controls-zero": PLACE | {"recipe": "fixmatch", "mode": "zero-12", "strategies": ["npc"]},
        },
    },
}
STEPS = Cell(*PLACE.values(), "random", 1)  # the others are named as what differs from it
INITIAL = replace(STEPS, mode="initial", seed=0)


@pytest.fixture(scope="module")
def config() -> dict:
    return check(CONFIG, "tests")


@pytest.fixture(scope="module")
def digits(root):
    return datasets.load("digits", root)


@pytest.fixture(scope="module")
def home(config, root, tmp_path_factory) -> Path:
    """A folder in which every cell of the tiny configuration is finished."""
    folder = tmp_path_factory.mktemp("npc")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for cell in sorted(npc.cells(config), key=lambda cell: (cell.mode != "initial", cell.recipe != STEPS.recipe)):
            run_cell(cell, npc.settings(config, cell), root)
    return folder


@pytest.fixture(scope="module")
def finished(config, home) -> dict[Cell, dict]:
    return {cell: records.read(home / record_of(cell), npc.RECORD) for cell in npc.cells(config)}


def record_of(cell: Cell) -> Path:
    return paths.record_path("tiny", "npc", cell)


def run_cell(cell: Cell, settings: dict, root: Path, out: Path | None = None) -> Path:
    """A cell in this process and in this folder, saved after every epoch."""
    load = datasets.source(["digits"], settings, root)
    return run("npc", "tiny", cell, settings, load, out or record_of(cell), where="cpu", save_every=1)


def bring(home: Path, files: list[str], there: Path) -> None:
    """Copies of finished records."""
    for file in files:
        (there / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(home / file, there / file)


def work_of(cell: Cell, settings: dict, digits, tmp_path: Path) -> running.Work:
    return running.Work(cell, settings, digits, torch.device("cpu"), Journal(tmp_path / "x", "x", torch.device("cpu")))


def varied(config: dict, cell: Cell, **changes) -> dict:
    """Settings with other values of the recipe or of the protocol."""
    settings = npc.settings(config, cell)
    for part in (settings["recipe"], settings["protocol"]):
        part.update({key: changes.pop(key) for key in list(changes) if key in part})
    assert not changes
    return settings


def labels_bought(record: dict, queries: int | None = None) -> list[int]:
    """Numbers of the images with a label after so many queries."""
    return [*record["initial"], *(image for done in record["cycles"][:queries] for image in done["queried"])]


class Once:
    """What a cell does, done here once more without its code: pool, training, looks."""

    def __init__(self, digits, config: dict, cell: Cell):
        self.cell, self.settings = cell, npc.settings(config, cell)
        self.pool = sorted(stream(0, "data", "train").permutation(1300)[:40].tolist())
        tested = sorted(stream(0, "data", "test").permutation(497)[:50].tolist())
        self.x, self.y = digits.images("train", self.pool), digits.labels("train", self.pool)
        self.x_test, self.y_test = digits.images("test", tested), digits.labels("test", tested)

    def net(self, *name: int | str):
        net = nets.build(self.cell.net, (1, 8, 8), 10, self.cell.width, torch_stream(self.cell.seed, "init", *name))
        return net.to(memory_format=torch.channels_last).eval()

    def train(self, images: list[int], number: int) -> tuple[torch.nn.Module, dict]:
        recipe = {key: self.settings["recipe"][key] for key in vars(Settings())}
        places, looks = torch.tensor([self.pool.index(image) for image in images]), []
        views = Views(flip=False, operations=OPERATIONS["digits"], cutout=0.3)
        average = fit(
            *(self.net(number), self.x, places, self.y[places], Settings(**recipe), views, self.cell.seed, number),
            at=(2, 3),
            look=lambda net, epoch: looks.append(self.accuracy(net, self.x_test, self.y_test)),
            shown=False,
        )
        confidence, said = predict(average, self.x).double().softmax(1).max(1)
        right, sure = (said == self.y).double(), confidence >= recipe["threshold"]
        return average, {
            "labelled": len(images),
            "test_accuracy": pytest.approx(np.mean(looks)),
            "last_accuracy": looks[-1],
            "train_accuracy": self.accuracy(average, self.x[places], self.y[places]),
            "pool_accuracy": pytest.approx(right.mean().item()),
            "sure": pytest.approx(sure.double().mean().item()),
            "sure_accuracy": pytest.approx(right[sure].mean().item()) if sure.any() else None,
            "predicted": [int((said == label).sum()) for label in range(10)],
        }

    def accuracy(self, net, x: torch.Tensor, y: torch.Tensor) -> float:
        return evaluate(net, x, y, "cross-entropy")[0]

    def query(self, net, images: list[int], size: int, step: int) -> list[int]:
        """What the cell's strategy buys, given these labels."""
        rest = [image for image in self.pool if image not in images]
        known, left = ([self.pool.index(image) for image in some] for some in (images, rest))
        query = Query(net, self.x[known], self.y[known], self.x[left])
        chosen = select(self.cell.strategy, query, size, stream(self.cell.seed, "query", step))
        return [rest[place] for place in chosen]


def found_in(done: dict, expected: dict) -> dict:
    return {key: done[key] for key in expected}


# --- cells and what they need ---


def test_cells_are_there_once_with_all_that_they_need(config):
    cells = npc.cells(config)
    assert cells == sorted(set(cells))
    assert len(cells) == 1 + 6 + 3 + 2 + 2 + 2 + 1
    assert [cell for cell in cells if cell.mode == "initial"] == [INITIAL]
    files = {str(record_of(cell)) for cell in cells}
    assert all(set(npc.inputs(config, cell)) <= files for cell in cells)


def test_what_a_cell_needs_is_there_though_no_panel_shows_it(config):
    """The control alone: it needs the cell that bought its labels, and that one the initial model."""
    alone = {"seeds": [0, 1], "panels": {"controls-fixmatch": CONFIG["npc"]["panels"]["controls-fixmatch"]}}
    cells = npc.cells(check(CONFIG | {"npc": CONFIG["npc"] | alone}, "tests"))
    bought = [replace(STEPS, strategy=strategy, seed=seed) for strategy in ("random", "badge") for seed in (0, 1)]
    assert set(cells) == {INITIAL, *bought, *(replace(cell, recipe="fixmatch") for cell in bought)}


@pytest.mark.parametrize(
    ("cell", "needed"),
    [
        (INITIAL, []),
        (replace(STEPS, strategy="npc"), [INITIAL]),
        (replace(STEPS, strategy="npc", mode="single-14"), [INITIAL]),
        (replace(STEPS, strategy="npc", mode="zero-12"), []),
        (replace(STEPS, strategy="npc", recipe="fixmatch"), [replace(STEPS, strategy="npc")]),
        (replace(STEPS, recipe="fixmatch", mode="zero-12"), [replace(STEPS, mode="zero-12")]),
    ],
)
def test_what_a_cell_reads(cell, needed, config):
    assert npc.needed(cell, npc.settings(config, cell)) == needed
    assert npc.inputs(config, cell) == [str(record_of(other)) for other in needed]


def test_settings_say_how_the_labels_were_bought(config):
    control = npc.settings(config, replace(STEPS, recipe="fixmatch"))
    assert control["bought_with"] == npc.settings(config, STEPS)
    assert control["recipe"]["darp"] is False
    assert npc.settings(config, STEPS)["queries"] == [4, 4]
    assert npc.settings(config, replace(STEPS, mode="single-14"))["queries"] == [4]
    assert npc.settings(config, replace(STEPS, mode="zero-12"))["queries"] == [12]
    assert npc.settings(config, INITIAL)["queries"] == []


def test_only_its_own_strategy_is_in_a_cell_s_digest():
    covered = digest.covered(*digest.modules_of_cell("npc", replace(STEPS, strategy="badge")))
    assert "bench.strategies.badge" in covered
    assert "bench.strategies.albl" not in covered
    assert "bench.studies.npc.tables" not in covered


def test_work_by_hand(config):
    """Three initial trainings, or two queries, of 36 steps; six labelled images, twelve in two views each."""
    assert npc.work(npc.settings(config, INITIAL))["trained"] == 3 * 36 * (6 + 2 * 12)
    assert npc.work(npc.settings(config, STEPS)) == {"trained": 2 * 36 * (6 + 2 * 12), "predicted": 0, "tested": 2 * 2}


# --- what is bought ---


def test_initial_labels_are_as_many_of_every_class(finished, config, digits, tmp_path):
    images = finished[INITIAL]["initial"]
    assert digits.labels("train", images).tolist() == list(range(10))
    work = work_of(INITIAL, varied(config, INITIAL, initial=2, pool=200), digits, tmp_path)
    places = work._balanced()
    assert len(set(places.tolist())) == 20
    assert torch.bincount(work.y[places]).tolist() == [2] * 10


def test_labels_are_from_the_pool_and_never_bought_twice(finished, config, digits):
    pool = set(Once(digits, config, STEPS).pool)
    for cell, record in finished.items():
        assert record["pool"] == 40
        bought = labels_bought(record)
        assert len(set(bought)) == len(bought)
        assert set(bought) <= pool
        for number, done in enumerate(record["cycles"], start=1):
            if done["queried"]:
                assert done["labelled"] == len(labels_bought(record, number)), cell
                classes = digits.labels("train", done["queried"]).bincount(minlength=10)
                assert done["bought"]["classes"] == classes.tolist()


def test_strategies_and_trials_share_the_initial_labels(finished):
    initial = finished[INITIAL]["initial"]
    shared = [record["initial"] for cell, record in finished.items() if "zero" not in cell.mode]
    assert len(shared) == 1 + 6 + 2 + 2 + 2
    assert all(each == initial for each in shared)


def test_counts_of_labels(finished):
    found = {cell.mode: [done["labelled"] for done in finished[cell]["cycles"]] for cell in finished}
    assert found == {"initial": [10, 10, 10], "steps": found["steps"], "single-14": [14], "zero-12": [12]}
    for cell in finished:
        if cell.mode == "steps":
            first = [] if cell.recipe == "fixmatch-darp" else [10]
            assert [done["labelled"] for done in finished[cell]["cycles"]] == [*first, 14, 18]


def test_a_trial_by_hand(finished, config, digits):
    """The first query is the initial model's, the second that of the running average trained on what was bought."""
    cell = replace(STEPS, strategy="margin+map=softmax")
    record, once = finished[cell], Once(digits, config, cell)
    first, second = record["cycles"]
    net = once.net("any")
    load_text(net, finished[INITIAL]["weights"])
    assert once.query(net, record["initial"], 4, 0) == first["queried"]
    average, expected = once.train(labels_bought(record, 1), 0)
    assert found_in(first, expected) == expected
    assert once.query(average, labels_bought(record, 1), 4, 1) == second["queried"]
    _, expected = once.train(labels_bought(record, 2), 1)
    assert found_in(second, expected) == expected
    assert record["parameters"] == sum(p.numel() for p in net.parameters())


def test_every_query_draws_anew(finished, config, digits):
    record, once = finished[STEPS], Once(digits, config, STEPS)
    for step, done in enumerate(record["cycles"]):
        assert done["queried"] == once.query(once.net("any"), labels_bought(record, step), 4, step)


def test_without_initial_labels_a_random_network_queries(finished, config, digits):
    for strategy in ("badge", "npc"):
        cell = replace(STEPS, strategy=strategy, mode="zero-12")
        record, once = finished[cell], Once(digits, config, cell)
        (done,) = record["cycles"]
        assert record["initial"] == []
        assert done["queried"] == once.query(once.net("zero"), [], 12, 0)
        assert done["bought"]["distance"] is None
        _, expected = once.train(done["queried"], 0)
        assert found_in(done, expected) == expected


def test_a_single_query_is_the_first_of_many_if_it_is_as_large(finished):
    for strategy in ("badge", "npc"):
        single = finished[replace(STEPS, strategy=strategy, mode="single-14")]
        steps = finished[replace(STEPS, strategy=strategy)]
        assert single["cycles"] == steps["cycles"][:1]


def test_random_batches_are_measured_where_random_queries(finished):
    for cell, record in finished.items():
        bought = cell.recipe == "fixmatch-darp" and cell.mode != "initial"
        measured = cell.strategy == "random" and bought and not cell.mode.startswith("zero-")
        for done in record["cycles"]:
            assert set(done["criteria"]) == (set(MEASURES) if measured else set())
            assert all(len(values) == 5 for values in done["criteria"].values())


def test_random_batches_are_measured_with_the_network_that_queries(finished, config, digits):
    record, once = finished[STEPS], Once(digits, config, STEPS)
    net = once.net("any")
    load_text(net, finished[INITIAL]["weights"])
    places = [once.pool.index(image) for image in record["initial"]]
    left = [place for place in range(40) if place not in places]
    query = Query(net, once.x[places], once.y[places], once.x[left])
    found = measure(query, 4, 5, once.y[left], stream(1, "criteria", 0))
    assert found == record["cycles"][0]["criteria"]


def test_a_strategy_remembers_its_earlier_queries(finished):
    """The bandit of `albl` has weighed its arms anew after the first query."""
    first, second = (done["notes"] for done in finished[replace(STEPS, strategy="albl")]["cycles"])
    assert first["weights"] == [1, 1]
    assert sorted(second["weights"])[0] == 1 < sorted(second["weights"])[1]


def test_training_is_handed_pixels_whatever_the_statistics(config, digits, tmp_path):
    """Digits are normalised by 0 and 1; other datasets are not."""
    other = replace(digits, mean=torch.full((1, 1, 1), 0.3), std=torch.full((1, 1, 1), 0.5))
    work = work_of(STEPS, npc.settings(config, STEPS), other, tmp_path)
    torch.testing.assert_close(work._pixels(), digits.arrays["x_train"][work.pool].float() / 255)
    assert work.x.min() < -0.5


def test_beyond_the_rank_the_criterion_of_the_paper_sees_nothing(finished):
    """Eight features and a bias: with 14 images and more every batch scores zero, and the record says so."""
    for done in finished[replace(STEPS, strategy="npc+variant=paper")]["cycles"]:
        assert done["notes"] == {"rank": 9, "score": 0, "tied": 1000, "rounding": True}
    for done in finished[replace(STEPS, strategy="npc")]["cycles"]:
        assert done["notes"]["rank"] == 9
        assert done["notes"]["score"] > 0
        assert done["notes"]["rounding"] is False
    for done in finished[STEPS]["cycles"]:
        assert set(done["criteria"]["lambda_min"]) == {0}
        assert min(done["criteria"]["nonzero"]) > 0


def test_pseudo_labels_that_are_sure_are_some_of_all(finished):
    """So that what is said of them here is not empty."""
    shares = [done["sure"] for record in finished.values() for done in record["cycles"]]
    assert sum(0 < share < 1 for share in shares) >= 5


# --- the initial model ---


@pytest.mark.parametrize(
    ("accuracies", "median"), [([0.9, 0.1, 0.5], 2), ([0.3, 0.3, 0.1], 0), ([0.4, 0.1, 0.3, 0.2], 3), ([0.7], 0)]
)
def test_the_initial_model_is_the_median_of_its_trainings(accuracies, median, config, digits, tmp_path):
    """All trainings done: only the choice is left. Of an even number it is the lower one of the middle."""
    work = work_of(INITIAL, varied(config, INITIAL, trials=len(accuracies)), digits, tmp_path)
    done = [{"test_accuracy": accuracy} for accuracy in accuracies]
    weights = [f"weights {number}" for number in range(len(done))]
    found = work.initial({"cycles": done, "net": None, "training": None, "weights": weights})
    assert (found["median"], found["weights"]) == (median, f"weights {median}")


def test_the_weights_in_the_record_are_those_of_the_median_training(finished, config, digits):
    record, once = finished[INITIAL], Once(digits, config, INITIAL)
    ranked = sorted(done["test_accuracy"] for done in record["cycles"])
    assert record["cycles"][record["median"]]["test_accuracy"] == ranked[1]
    trained = [once.train(record["initial"], running.FIRST + number) for number in range(3)]
    for done, (_, expected) in zip(record["cycles"], trained, strict=True):
        assert found_in(done, expected) == expected
    net = once.net("any")
    load_text(net, record["weights"])
    outputs = [predict(average, once.x_test) for average, _ in trained]
    torch.testing.assert_close(predict(net, once.x_test), outputs[record["median"]], rtol=0, atol=0)
    assert not any(torch.equal(outputs[number], outputs[record["median"]]) for number in {0, 1, 2} - {record["median"]})


# --- what is shared ---


def test_strategies_of_a_trial_share_weights_and_order(config, digits, tmp_path):
    """On equal labels two strategies train equal networks, two trials do not."""
    images = np.arange(12)
    outputs = {}
    for strategy, seed in (("random", 0), ("npc", 0), ("npc", 1)):
        cell = replace(STEPS, strategy=strategy, seed=seed)
        work = work_of(cell, npc.settings(config, cell), digits, tmp_path)
        net, _ = work._train(images, 0, {"cycles": [], "net": None, "training": None})
        outputs[strategy, seed] = predict(net, work.x_test)
    assert torch.equal(outputs["random", 0], outputs["npc", 0])
    assert not torch.equal(outputs["npc", 0], outputs["npc", 1])


def test_controls_of_a_trial_agree_on_the_labels_that_all_have(finished):
    for recipe in ("fixmatch", "supervised-weak"):
        random, badge = (
            finished[replace(STEPS, recipe=recipe, strategy=name)]["cycles"] for name in ("random", "badge")
        )
        assert random[0] == badge[0]
        assert random[1] != badge[1]


# --- the same labels in another training ---


@pytest.mark.parametrize("recipe", ["fixmatch", "supervised-weak"])
def test_a_control_trains_on_exactly_the_labels_that_were_bought(recipe, finished, config, digits):
    cell = replace(STEPS, recipe=recipe, strategy="badge")
    record, theirs, once = (
        finished[cell],
        finished[replace(STEPS, strategy="badge")],
        Once(digits, config, cell),
    )
    assert record["initial"] == theirs["initial"]
    sets = [labels_bought(theirs, queries) for queries in range(3)]
    for done, images, number in zip(record["cycles"], sets, (running.FIRST, 0, 1), strict=True):
        assert (done["queried"], done["bought"], done["notes"], done["criteria"]) == ([], {}, {}, {})
        _, expected = once.train(images, number)
        assert found_in(done, expected) == expected


def test_a_control_hands_these_labels_to_training(finished, config, digits, root, home, tmp_path, monkeypatch):
    """The same, told by the training itself: which images, in which order, with which labels."""
    cell, seen = replace(STEPS, recipe="fixmatch", strategy="random"), []

    def seeing(net, x, labelled, y, *rest, **more):
        seen.append((labelled.tolist(), y.tolist()))
        return fit(net, x, labelled, y, *rest, **more)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "fit", seeing)
    bring(home, npc.inputs(config, cell), tmp_path)
    run_cell(cell, npc.settings(config, cell), root)
    pool, theirs = Once(digits, config, cell).pool, finished[replace(STEPS)]
    sets = [labels_bought(theirs, queries) for queries in range(3)]
    assert [[pool[place] for place in places] for places, _ in seen] == sets
    assert [labels for _, labels in seen] == [digits.labels("train", images).tolist() for images in sets]


def test_a_control_of_a_random_network_s_labels_has_no_initial_ones(finished):
    theirs = finished[replace(STEPS, strategy="npc", mode="zero-12")]
    record = finished[replace(STEPS, recipe="fixmatch", strategy="npc", mode="zero-12")]
    assert record["initial"] == theirs["initial"] == []
    assert [done["labelled"] for done in record["cycles"]] == [12]


def test_a_control_whose_pool_lacks_bought_labels_is_refused(finished, config, digits, tmp_path):
    cell = replace(STEPS, recipe="fixmatch")
    work = work_of(cell, varied(config, cell, pool=20), digits, tmp_path)
    images = labels_bought(finished[STEPS])
    assert not set(images) <= set(work.pool.tolist())
    with pytest.raises(UserError, match="pool"):
        work._places(images)


# --- killed and started again ---


class Killed(Exception):
    pass


@pytest.mark.parametrize(
    ("cell", "saves"),
    [
        (INITIAL, 3 * (3 + 1)),  # three trainings: after every epoch, and when done
        (replace(STEPS, strategy="albl"), 2 * (1 + 3 + 1)),  # and after the query; it remembers its queries
        (replace(STEPS, strategy="random"), 2 * (1 + 3 + 1)),  # measures batches at its queries
        (replace(STEPS, strategy="npc"), 2 * (1 + 3 + 1)),
        (replace(STEPS, strategy="badge", mode="zero-12"), 1 + 3 + 1),
        (replace(STEPS, strategy="badge", recipe="fixmatch"), 3 * (3 + 1)),
    ],
    ids=lambda value: f"{value.recipe}-{value.mode}-{value.strategy}" if isinstance(value, Cell) else "",
)
def test_a_run_killed_between_any_two_saves_continues_to_the_same_bytes(
    cell, saves, config, home, root, tmp_path, monkeypatch
):
    """Every attempt gets as far as one save, goes on, and dies before the next: in mid-training, or before a query."""
    original, left = Journal.save, 0

    def save(self, state: dict) -> None:
        nonlocal left
        if not left:
            raise Killed
        original(self, state)
        left -= 1

    monkeypatch.chdir(tmp_path)
    bring(home, npc.inputs(config, cell), tmp_path)
    monkeypatch.setattr(Journal, "save", save)
    for _ in range(saves - 1):
        left = 1
        with pytest.raises(Killed):
            run_cell(cell, npc.settings(config, cell), root)
    left = 1
    out = run_cell(cell, npc.settings(config, cell), root)
    assert out.read_bytes() == (home / out).read_bytes()
    assert records.read_json(paths.meta_path(out))["attempts"] == saves
    assert not paths.resume_path(out).exists()


def test_a_run_killed_in_the_middle_of_an_epoch_continues_to_the_same_bytes(config, home, root, tmp_path, monkeypatch):
    """Steps that were done after the last save are done again, looks at the accuracy too."""
    from bench.learn.sgd import SGD

    cell, calls, original = replace(STEPS, strategy="badge"), 0, SGD.step
    deadly = {30, 44, 46}  # in the third epoch of the first training, then early in the second, then again

    def step(self, *words):
        nonlocal calls
        calls += 1
        if calls in deadly:
            raise Killed
        return original(self, *words)

    monkeypatch.chdir(tmp_path)
    bring(home, npc.inputs(config, cell), tmp_path)
    monkeypatch.setattr(SGD, "step", step)
    for _ in deadly:
        with pytest.raises(Killed):
            run_cell(cell, npc.settings(config, cell), root)
    out = run_cell(cell, npc.settings(config, cell), root)
    assert out.read_bytes() == (home / out).read_bytes()


@pytest.mark.parametrize(
    "strategy",
    ["npc+variant=full+m=20", "npc+variant=logdet", "npc+variant=normalised"],
)
def test_variants_query_a_trained_network_like_the_initial_one(strategy, config, home, root, tmp_path, monkeypatch):
    cell = replace(STEPS, strategy=strategy)
    monkeypatch.chdir(tmp_path)
    bring(home, npc.inputs(config, cell), tmp_path)
    record = records.read(run_cell(cell, npc.settings(config, cell), root), npc.RECORD)
    assert [len(done["queried"]) for done in record["cycles"]] == [4, 4]


# --- by hand, and mistakes ---


def test_a_record_that_is_needed_and_missing_is_named_with_what_to_type(config, root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for cell, other in ((replace(STEPS, strategy="npc"), INITIAL), (replace(STEPS, recipe="fixmatch"), STEPS)):
        with pytest.raises(UserError) as error:
            run_cell(cell, npc.settings(config, cell), root)
        path, typed = str(error.value).split(" is missing; first type: ")
        assert path == str(record_of(other))
        words = typed.split()
        assert words[:5] == ["python", "-m", "bench", "run", "npc"]
        assert (Cell.parse(words[5]), words[6:]) == (other, ["--scale", "tiny"])
        assert not record_of(cell).exists()


def test_the_command_line_says_it_in_one_line(config, root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["run", "npc", str(STEPS), "--scale", "tiny", "--settings", json.dumps(npc.settings(config, STEPS))]
    assert main([*words, "--root", str(root), "--device", "cpu"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"bench: {record_of(INITIAL)} is missing; first type: ")


def test_a_record_of_other_settings_is_refused(config, home, root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bring(home, [str(record_of(INITIAL)), str(record_of(STEPS))], tmp_path)
    longer = varied(config, STEPS, steps=12)
    with pytest.raises(UserError, match=r"initial/random/seed-0\.json is of other settings; remove it and run it"):
        run_cell(STEPS, longer, root)
    control = replace(STEPS, recipe="fixmatch")
    settings = npc.settings(config, control)
    run_cell(control, settings | {"recipe": settings["recipe"] | {"lr": 0.01}}, root)  # its own may be others
    with pytest.raises(UserError, match=r"steps/random/seed-1\.json is of other settings"):
        run_cell(control, settings | {"bought_with": longer}, root)


def test_a_record_that_is_none_is_refused(config, root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record_of(INITIAL).parent.mkdir(parents=True)
    record_of(INITIAL).write_text(json.dumps({"weights": "?"}))
    with pytest.raises(UserError, match="not a run record"):
        run_cell(STEPS, npc.settings(config, STEPS), root)


def test_out_elsewhere_is_for_cells_that_need_no_other(config, root, home, tmp_path):
    out = tmp_path / "mine.json"
    with pytest.raises(UserError, match="from below results/; leave --out away"):
        run_cell(STEPS, npc.settings(config, STEPS), root, out)
    assert not out.exists()
    run_cell(INITIAL, npc.settings(config, INITIAL), root, out)
    assert out.read_bytes() == (home / record_of(INITIAL)).read_bytes()


def test_a_class_that_the_pool_does_not_have_is_named(config, root, digits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = varied(config, INITIAL, pool=12)
    present = set(work_of(INITIAL, settings, digits, tmp_path).y.tolist())
    absent = min(set(range(10)) - present)
    with pytest.raises(UserError) as error:
        run_cell(INITIAL, settings, root)
    assert f"a pool of 12 images has fewer than 1 of class {absent}; set npc.protocol.digits.pool" in str(error.value)


def test_a_training_that_diverges_says_what_to_lower(config, root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"lower npc\.recipes\.fixmatch-darp\.lr"):
        run_cell(INITIAL, varied(config, INITIAL, lr=1e30), root)


PANEL = PLACE | {"strategies": ["random"]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"recipe": "fixmatch-darp+pool=17"}, "npc.panels.mine: 18 labels are wanted, but the pool has 17 images"),
        ({"mode": "zero-41"}, "41 labels are wanted, but the pool has 40 images"),
        ({"mode": "single-41"}, "41 labels are wanted, but the pool has 40 images"),
        ({"recipe": "fixmatch-darp+queries=400+pool=null"}, "1610 labels are wanted"),
        ({"mode": "single-10"}, "mode 'single-10': the initial model has 10 labels already; ask for more"),
        ({"mode": "single-20", "recipe": "fixmatch-darp+initial=2"}, "has 20 labels already"),
        ({"recipe": "fixmatch-darp+evaluations=4"}, "4 evaluations are wanted, but a training has 3 epochs"),
        ({"recipe": "fixmatch-darp+steps=3"}, "2 evaluations are wanted, but a training has 1 epoch"),
        ({"recipe": "fixmatch-darp+mu=0"}, "mu: found 0; allowed: a number >= 1"),
        ({"recipe": "fixmatch-darp+stpes=3"}, "unknown key after 'fixmatch-darp' 'stpes'; did you mean 'steps'?"),
        ({"recipe": "fixmatch-drap"}, "unknown recipe 'fixmatch-drap'; did you mean 'fixmatch-darp'?"),
        ({"recipe": "lost"}, "unknown recipe 'fixmatsch'; did you mean 'fixmatch'?"),
        ({"recipe": "chained"}, "labels_of names 'fixmatch', which buys no labels of its own"),
        ({"recipe": "circular"}, "labels_of names 'circular', which buys no labels of its own"),
        ({"recipe": "fixmatch+pool=20"}, "its pool is not that of 'fixmatch-darp'"),
        ({"recipe": "supervised-weak+darp=true"}, "DARP refines pseudo-labels, which supervised training has not"),
        ({"mode": "step"}, "npc.panels.mine: mode: found 'step'; allowed: steps"),
        ({"mode": "double-40"}, "npc.panels.mine: mode: found 'double-40'; allowed: steps"),
        ({"mode": "single-040"}, "npc.panels.mine: mode: found 'single-040'; allowed: steps"),
        ({"mode": "initial"}, "npc.panels.mine.mode: found 'initial'"),
        ({"dataset": "digit"}, "unknown dataset 'digit'; did you mean 'digits'?"),
        ({"dataset": "svhn"}, "unknown dataset of npc.protocol 'svhn'"),
        ({"net": "wrn-smal"}, "unknown net 'wrn-smal'; did you mean 'wrn-small'?"),
        ({"strategies": ["random", "bagde"]}, "unknown strategy 'bagde'; did you mean 'badge'?"),
        ({"strategies": ["initial"]}, "unknown strategy 'initial'"),
        ({"seeds": []}, "at least 1 entry"),
    ],
    ids=lambda value: "-".join(f"{key}={entry}" for key, entry in value.items()) if isinstance(value, dict) else "",
)
def test_mistakes_are_one_line(changes, words):
    recipes = CONFIG["npc"]["recipes"] | {
        "lost": SHORT | {"labels_of": "fixmatsch"},
        "chained": SHORT | {"labels_of": "fixmatch"},
        "circular": SHORT | {"labels_of": "circular"},
    }
    given = CONFIG["npc"] | {"recipes": recipes, "panels": {"mine": PANEL | changes}}
    with pytest.raises(UserError) as error:
        check(CONFIG | {"npc": given}, "my.yaml")
    assert words in str(error.value)
    assert str(error.value).startswith("my.yaml: npc.")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"recipes": {"fixmatch-darp": {"mu": 0}}}, "npc.recipes.fixmatch-darp.mu: found 0; allowed: a number >= 1"),
        ({"recipes": {"fixmatch-darp": {"darp_solver": "cg"}}}, "unknown value 'cg'"),
        ({"protocol": {"digit": {}}}, "npc.protocol: unknown dataset 'digit'"),
        ({"images": {"average_pool": {"digit": 2}}}, "npc.images.average_pool: unknown dataset 'digit'"),
        ({"protocol": {"digits": {"batches": 1}}}, "npc.protocol.digits.batches: found 1; allowed: a number >= 2"),
    ],
)
def test_mistakes_of_other_sections_are_one_line(changes, words):
    with pytest.raises(UserError) as error:
        check(CONFIG | {"npc": CONFIG["npc"] | changes}, "my.yaml")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("mode", ["step", "steps-3", "double-40", "single-", "zero-", "zero-x"])
def test_an_unknown_mode_of_a_cell_says_which_there_are(mode, config):
    with pytest.raises(UserError, match=r"mode: found .* allowed: steps, single-40 or zero-40"):
        npc.settings(config, replace(STEPS, mode=mode))


def test_an_unknown_mode_of_a_panel_says_which_there_are():
    with pytest.raises(UserError) as error:
        check(CONFIG | {"npc": CONFIG["npc"] | {"panels": {"mine": PANEL | {"mode": "step"}}}}, "my.yaml")
    assert "braces" not in str(error.value)


def test_a_mistake_behind_the_plus_of_labels_of_says_where_it_is():
    recipes = CONFIG["npc"]["recipes"] | {"odd": SHORT | {"labels_of": "fixmatch-darp+stpes=3"}}
    with pytest.raises(UserError) as error:
        check(
            CONFIG | {"npc": CONFIG["npc"] | {"recipes": recipes, "panels": {"mine": PANEL | {"recipe": "odd"}}}}, "x"
        )
    assert str(error.value).startswith("x: npc.panels.mine")


@pytest.mark.parametrize("strategy", ["gp", "ll4al"])
def test_a_strategy_with_a_training_of_its_own_is_refused(strategy, config, home, root, tmp_path, monkeypatch):
    cell = replace(STEPS, strategy=strategy)
    monkeypatch.chdir(tmp_path)
    bring(home, npc.inputs(config, cell), tmp_path)
    with pytest.raises(UserError, match=f"{strategy} brings a network or a training of its own"):
        run_cell(cell, npc.settings(config, cell), root)


def test_as_many_labels_as_the_pool_has_images_are_no_mistake():
    panels = {"a": PANEL | {"recipe": "fixmatch-darp+pool=18"}, "b": PANEL | {"mode": "zero-40"}}
    check(CONFIG | {"npc": CONFIG["npc"] | {"panels": panels}}, "my.yaml")
