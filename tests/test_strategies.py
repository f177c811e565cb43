"""The contract of every strategy found in bench/strategies/, and what each myopic one selects."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from speeds import some
from torch import nn

from bench import nets, strategies
from bench.core import registry
from bench.core.errors import UserError
from bench.core.seeds import stream, torch_stream
from bench.learn.train import Recipe
from bench.strategies import Query, select, top


def variants():
    """Every strategy with every value of each of its named options, the others at their defaults.

    Whole numbers are 1: what is promised does not depend on them, and the time it takes to see does.
    """
    for name, component in registry.components("strategies").items():
        offered = component.constants.get("OPTIONS", {})
        numbers = [f"{option}=1" for option, values in offered.items() if isinstance(values, int)]
        named = {option: values for option, values in offered.items() if not isinstance(values, int)}
        single = [[], *([f"{option}={value}"] for option, values in named.items() for value in values[1:])]
        yield from (registry.canonical("strategies", "+".join([name, *numbers, *more])) for more in single)


PAIRS = [  # options that meet in one line of code
    "ntk+kernel=full+objective=eer",
    "ntk+kernel=full+solve=resolve",
    "ntk+kernel=full+query=sequential",
    "ntk+objective=flips+reference=linear",
    "ntk+objective=emoc+solve=resolve",
    "ntk+objective=eer-max+query=sequential",
    "margin+map=softmax+rule=released",
]
VARIANTS = sorted({*variants(), *PAIRS})
PLAIN = [spec for spec in VARIANTS if spec.removesuffix("+epochs=1") in registry.components("strategies")]
# the only ones whose choice may depend on where a candidate stands, and
RANDOM = {"random", "gp-random", "badge", "npc", "albl"}
LOTS = ("timed=sample", "objective=flips")  # options that buy at random, or score by small numbers that mostly tie
LABELS = torch.arange(30) % 4  # of the candidates
RECIPE = Recipe("mse", "constant", False, 0.05, None, 0.9, 0.0, epochs=2, batch=32, augment="none")


@pytest.fixture(autouse=True)
def _few_are_audited(monkeypatch):
    monkeypatch.setattr("bench.strategies.ntk.AUDITED", 2)


@pytest.fixture(scope="module")
def query():
    generator = torch.Generator().manual_seed(0)
    net = nets.build("convnet+depth=2", (1, 8, 8), 4, 1, torch_stream(0, "init")).eval()
    net.head.weight.data *= 0.3  # outputs inside the simplex, where no map makes ties
    net.head.bias.data *= 0.3
    x = torch.rand(40, 1, 8, 8, generator=generator)
    return Query(net, x[:10], torch.arange(10) % 4, x[10:], RECIPE, lambda i: int(LABELS[i]))


@some("strategy", VARIANTS, daily=3, always=PLAIN)
class TestContract:
    @pytest.fixture
    def query(self, strategy, query):
        """As the strategy would get it: with a network of its own, trained in its own way, if it brings them."""
        net = strategies.network(strategy, copy.deepcopy(query.net), torch_stream(0, "init"))
        if hasattr(registry.load("strategies", strategy)[0], "fit"):
            saving = {"resume": None, "save": lambda state: None, "save_every": 10}
            strategies.fit(strategy, net, query.labelled_images, query.labelled_labels, RECIPE, 0, 0, **saving)
        return replace(query, net=net.eval(), notes={})

    @pytest.mark.parametrize("size", [1, 7, 30])
    def test_right_count_no_repeats_inside_the_subset(self, strategy, query, size):
        chosen = select(strategy, query, size, stream(0, "query"))
        assert chosen.shape == (size,)
        assert len(set(chosen.tolist())) == size
        assert set(chosen.tolist()) <= set(range(30))

    def test_deterministic_given_the_stream(self, strategy, query):
        first, again = (select(strategy, query, 5, stream(1, "query")) for _ in range(2))
        assert first.tolist() == again.tolist()

    def test_permuted_candidates_give_the_same_images(self, strategy, query):
        if strategy.partition("+")[0] in RANDOM or any(option in strategy for option in LOTS):
            return  # random by design
        order = np.random.default_rng(0).permutation(30)
        permuted = replace(query, candidates=query.candidates[order], oracle=lambda i: int(LABELS[order[i]]))
        chosen = select(strategy, query, 6, stream(0, "query"))
        assert set(order[select(strategy, permuted, 6, stream(5, "query"))]) == set(chosen)

    def test_ties_are_broken_by_the_stream(self, strategy, query):
        tied = replace(query, candidates=query.candidates[:1].repeat(30, 1, 1, 1))
        seen = {tuple(select(strategy, tied, 3, stream(seed, "query"))) for seed in range(8)}
        assert len(seen) > 4

    def test_leaves_network_and_global_random_state_alone(self, strategy, query):
        before = {name: tensor.clone() for name, tensor in query.net.state_dict().items()}
        states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        select(strategy, query, 4, stream(0, "query"))
        assert torch.equal(states[0], torch.get_rng_state())
        assert (states[1] == np.random.get_state()[1]).all()  # noqa: NPY002
        assert all(torch.equal(before[name], tensor) for name, tensor in query.net.state_dict().items())

    def test_more_than_there_are_is_refused(self, strategy, query):
        with pytest.raises(UserError, match="31 labels from 30 candidates"):
            select(strategy, query, 31, stream(0, "query"))


@pytest.mark.parametrize("wrong", [[0, 0, 0], [0, 1], [0, 1, 30], [-1, 0, 1], [[0, 1, 2]]])
def test_a_strategy_that_breaks_the_contract_is_stopped(query, monkeypatch, wrong):
    module, _ = registry.load("strategies", "random")
    monkeypatch.setattr(module, "select", lambda query, size, stream: wrong)
    with pytest.raises(UserError, match="3 different positions"):
        select("random", query, 3, stream(0))


def test_a_label_that_was_asked_for_must_be_bought(query, monkeypatch):
    module, _ = registry.load("strategies", "random")

    def peeking(query, size, stream):
        query.oracle(7)
        return [0, 1, 2]

    monkeypatch.setattr(module, "select", peeking)
    with pytest.raises(UserError, match=r"labels of \[7\]"):
        select("random", query, 3, stream(0))


class Outputs(nn.Module):
    """A network whose outputs are its inputs."""

    def forward(self, x):
        return x.flatten(1)


def ask(strategy, outputs, size):
    images = torch.tensor(outputs, dtype=torch.float32)[:, :, None, None]
    return select(
        strategy, Query(Outputs(), images, torch.zeros(len(images)), images), size, stream(0, "query")
    ).tolist()


CASE = [[5.0, 0.0, 0.0], [5.0, 4.9, 0.0], [1.0, 1.0, 1.0], [5.0, 2.0, 1.0]]


@pytest.mark.parametrize(
    ("strategy", "best_first"),
    [
        ("entropy", [2, 1, 3, 0]),  # uniform, two equal classes, a bit of all, one class
        ("entropy+map=softmax", [2, 1, 3, 0]),
        ("margin", [2, 1, 3, 0]),
        ("margin+map=softmax", [2, 1, 3, 0]),
        ("least-confidence", [2, 1, 3, 0]),
    ],
)
def test_known_orders(strategy, best_first):
    assert ask(strategy, CASE, 4) == best_first


def test_the_released_margin_looks_at_the_wrong_two_classes():
    assert ask("margin+rule=released", CASE, 4)[:2] == [1, 3]  # largest gap between the two LEAST probable classes
    assert ask("margin", CASE, 4)[0] == 2


def test_entropy_by_hand():
    outputs = [[0.0, 1.0, 3.0], [0.0, 2.0, 3.0], [0.0, 0.1, 3.0]]
    entropies = []
    for row in outputs:
        scaled = np.maximum((np.array(row) - min(row)) / (max(row) - min(row)), 1e-6)
        p = scaled / scaled.sum()
        entropies.append(-(p * np.log(p)).sum())
    assert ask("entropy", outputs, 3) == np.argsort(entropies)[::-1].tolist()


def test_random_is_uniform(query):
    counts = np.zeros(30)
    for seed in range(600):
        counts[select("random", query, 3, stream(seed, "query"))] += 1
    assert counts.sum() == 1800
    assert ((counts - 60) ** 2 / 60).sum() < 58  # chi-square, 29 degrees of freedom, p = 0.001


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.data())
def test_top_takes_the_largest(values, data):
    size = data.draw(st.integers(1, len(values)))
    chosen = top(torch.tensor(values, dtype=torch.double), size, stream(data.draw(st.integers(0, 99))))
    assert [values[i] for i in chosen] == sorted(values, reverse=True)[:size]


def test_scores_that_are_not_numbers_are_refused():
    with pytest.raises(UserError, match="1 of 2 acquisition scores"):
        top(torch.tensor([0.0, float("nan")]), 1, stream(0))
