"""Degenerate input to the look-ahead strategies: a clear error, or a defined choice and a note of what is wrong."""

import pytest
import torch
from speeds import some

from bench import nets, strategies
from bench.core.errors import UserError
from bench.core.journal import Journal
from bench.core.seeds import stream, torch_stream
from bench.learn import data
from bench.learn.train import Recipe
from bench.strategies import Query, select
from bench.studies.lookahead import Cell
from bench.studies.lookahead import run as lookahead

LOOKING_AHEAD = [
    *("ntk", "ntk+kernel=first", "ntk+kernel=full", "ntk+reference=linear", "ntk+solve=resolve"),
    *("ntk+objective=flips", "ntk+objective=emoc", "ntk+objective=eer", "ntk+objective=eer-max"),
    *("ntk+query=sequential", "ntk+kernel=full+query=sequential"),
    *("one-step", "one-step+step=true", "infinite", "infinite+prior=zero", "infinite+kernel=convnet"),
    *("gp", "gp-random", "naive+epochs=1"),
]
CONDITIONED = ["ntk+reference=linear", "ntk+kernel=full+reference=linear", "infinite+prior=zero", "gp"]
RECIPE = Recipe("mse", "constant", False, 0.2, None, 0.9, 0.0, epochs=5, batch=32, augment="none")


def images(count, seed=0):
    return torch.rand(count, 1, 6, 6, generator=torch.Generator().manual_seed(seed))


def trained(strategy, x, y, candidates):
    """A query in which the strategy's own network has been trained on x, y by a strategy's own way."""
    net = nets.build("wrn", (1, 6, 6), 3, 4, torch_stream(0, "init"))
    net = strategies.network(strategy, net, torch_stream(0, "init"))
    saving = {"resume": None, "save": lambda state: None, "save_every": 10}
    strategies.fit(strategy, net, x, y, RECIPE, 0, 0, **saving)
    return Query(net, x, y, candidates, RECIPE, lambda i: i % 3)


def asked(strategy, x, y, candidates, size=None):
    """All candidates, best first, and the notes."""
    query = trained(strategy, x, y, candidates)
    return select(strategy, query, size or len(candidates), stream(0, "query")).tolist(), query.notes


X, Y = images(9), torch.arange(9) % 3


@some("strategy", LOOKING_AHEAD, daily=2, always=["ntk", "one-step", "infinite", "gp"])
class TestDefined:
    def test_one_class_only(self, strategy):
        order, _ = asked(strategy, X, torch.full((9,), 2), images(10, 1))
        assert sorted(order) == list(range(10))

    def test_one_label_only(self, strategy):
        order, _ = asked(strategy, X[:1], Y[:1], images(10, 1))
        assert sorted(order) == list(range(10))

    def test_one_candidate_only(self, strategy):
        assert asked(strategy, X, Y, images(1, 1))[0] == [0]

    def test_duplicates_in_the_pool(self, strategy):
        order, _ = asked(strategy, X, Y, images(5, 1).repeat(2, 1, 1, 1))
        assert sorted(order) == list(range(10))

    def test_constant_images(self, strategy):
        candidates = torch.cat([images(6, 1), torch.zeros(2, 1, 6, 6), torch.ones(2, 1, 6, 6)])
        order, _ = asked(strategy, X, Y, candidates)
        assert sorted(order) == list(range(10))

    @pytest.mark.filterwarnings("ignore:kernel regression misses its targets")  # a black one has no kernel at all
    def test_labelled_constant_images(self, strategy):
        order, _ = asked(strategy, torch.cat([X, torch.zeros(1, 1, 6, 6)]), torch.arange(10) % 3, images(10, 1))
        assert sorted(order) == list(range(10))

    def test_labelled_images_among_the_candidates(self, strategy):
        order, _ = asked(strategy, X, Y, torch.cat([X[:3], images(7, 1)]))
        assert sorted(order) == list(range(10))

    def test_repeated_rows(self, strategy):
        order, _ = asked(strategy, torch.cat([X, X[:3]]), torch.cat([Y, Y[:3]]), images(10, 1))
        assert sorted(order) == list(range(10))

    @pytest.mark.filterwarnings("ignore:kernel regression misses its targets")
    def test_repeated_rows_that_contradict_each_other(self, strategy):
        order, _ = asked(strategy, torch.cat([X, X[:3]]), torch.cat([Y, (Y[:3] + 1) % 3]), images(10, 1))
        assert sorted(order) == list(range(10))

    def test_weights_that_are_not_numbers(self, strategy):
        query = trained(strategy, X, Y, images(4, 1))
        if not list(query.net.parameters()):
            return  # none that training could spoil
        for weight in query.net.parameters():
            weight.data.fill_(float("nan"))
        with pytest.raises(UserError, match=r"NaN or infinity|not finite"):
            select(strategy, query, 2, stream(0))


@pytest.mark.parametrize("strategy", CONDITIONED)
def test_copies_of_labelled_images_come_last_and_are_counted(strategy):
    candidates = torch.cat([images(4, 1), X[:3], images(3, 2)])
    order, notes = asked(strategy, X, Y, candidates)
    assert set(order[-3:]) == {4, 5, 6}
    assert "3 of 10 candidates change nothing" in notes["warning"]


@pytest.mark.parametrize("strategy", CONDITIONED)
def test_repeated_labelled_images_are_noted(strategy):
    _, notes = asked(strategy, torch.cat([X, X[:3]]), torch.cat([Y, Y[:3]]), images(10, 1))
    assert "singular" in notes["warning"] or "not positive definite" in notes["warning"]
    assert notes["condition"] > 1e8


@pytest.mark.parametrize("strategy", ["infinite+prior=zero", "gp"])
def test_black_images_have_no_kernel_and_come_last(strategy):
    order, notes = asked(strategy, X, Y, torch.cat([torch.zeros(2, 1, 6, 6), images(8, 1)]))
    assert set(order[-2:]) == {0, 1}
    assert "2 of 10 candidates change nothing" in notes["warning"]


def test_a_bought_copy_leaves_nothing_to_gain_from_the_other():
    """Batch queries buy both copies of a candidate, sequential ones see that the second says nothing new."""
    candidates = images(8, 1)
    best = asked("ntk+query=sequential", X, Y, candidates, 1)[0][0]
    doubled = torch.cat([candidates, candidates[best : best + 1]])
    batch = asked("ntk+reference=linear", X, Y, doubled)[0]
    assert abs(batch.index(best) - batch.index(8)) == 1
    assert {best, 8} == {asked("ntk+query=sequential", X, Y, doubled)[0][k] for k in (0, -1)}


def run(strategy, settings, root, tmp_path, size=1300):
    """A cell, on so many of the training images."""
    cell = Cell("digits", "wrn", 8, "l2", strategy, 0)
    journal = Journal(tmp_path / f"{strategy}.pt", "test", torch.device("cpu"))
    digits = data.load("digits", root)
    digits.arrays |= {key: digits.arrays[key][:size] for key in ("x_train", "y_train")}
    return lookahead.run(cell, settings, digits, torch.device("cpu"), journal)


@pytest.fixture(scope="module")
def brief(settings):
    return settings | {"recipe": settings["recipe"] | {"epochs": 1}}


def changed(settings, **protocol):
    return settings | {"protocol": settings["protocol"] | protocol}


def test_a_query_larger_than_its_subset_is_refused_before_anything_is_trained(brief, root, tmp_path):
    with pytest.raises(UserError, match=r"query \(41\) is larger than subset \(40\)"):
        run("ntk", changed(brief, query=41), root, tmp_path)


def test_a_query_larger_than_the_pool_is_refused_before_anything_is_trained(brief, root, tmp_path):
    with pytest.raises(UserError, match="1301 labels, but there are 1300 training images"):
        run("ntk", changed(brief, initial=1297, query=2, subset=5000), root, tmp_path)


@pytest.mark.parametrize("strategy", ["ntk", "gp"])
def test_a_subset_larger_than_the_pool_is_the_pool(strategy, brief, root, tmp_path):
    found = run(strategy, changed(brief, initial=40, query=10, subset=5000), root, tmp_path, size=60)
    bought = [index for done in found["cycles"] for index in done["queried"]]
    assert sorted([*found["initial"], *bought]) == list(range(60))


def test_a_diverged_network_never_reaches_a_strategy(settings, root, tmp_path, monkeypatch):
    original, looked = strategies.select, []

    def look(strategy, query, size, stream):
        looked.append(bool(torch.isfinite(query.outputs).all()))
        assert all(torch.isfinite(weight).all() for weight in query.net.parameters())
        return original(strategy, query, size, stream)

    monkeypatch.setattr(strategies, "select", look)
    wild = settings | {"recipe": settings["recipe"] | {"lr": 1e30, "fallback_lr": 0.1}}
    found = run("ntk", wild, root, tmp_path)
    assert found["diverged"]["learning_rate"] == 1e30
    assert looked == [True, True]
