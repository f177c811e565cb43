"""The bandits of ALBL by hand, over several queries, from nothing but their notes."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bench.core.errors import UserError
from bench.core.seeds import stream
from bench.strategies import Query, albl, select
from bench.strategies._memory import Remembering

ARMS = ["least-confidence", "coreset"]


class Plain(nn.Module):
    """A network whose features and outputs are its inputs."""

    def features(self, x):
        return x.flatten(1)

    def forward(self, x):
        return x.flatten(1)


def images(rows):
    return torch.tensor(rows, dtype=torch.float32)[:, :, None, None]


# Predicted classes 0, 1, 0, 1; the first two are the initial labels
LABELLED = [[2.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, 3.0], [4.0, 0.0], [0.0, 4.0]]
POOL = [[9.0, 0.0], [1.0, 0.9], [0.0, 7.0], [0.5, 0.1], [1.0, 0.2]]


def query(labels, earlier=()):
    known = images(LABELLED[: len(labels)])
    return Remembering(Plain(), known, torch.tensor(labels), images(POOL), earlier=list(earlier))


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=6), st.floats(0, 1))
def test_probabilities(weights, share):
    least = share / len(weights)
    p = albl.probabilities(np.array(weights), least)
    assert p.sum() == pytest.approx(1)
    assert (p >= least * (1 - 1e-12)).all()
    assert p.argmax() == np.argmax(weights) or share > 0.999 or p.max() == pytest.approx(p[np.argmax(weights)])


class TestBatch:
    def test_first_query_is_a_fair_coin_and_buys_with_one_arm(self):
        seen = []
        for seed in range(60):
            asked = query([0, 1])
            chosen = select("albl", asked, 3, stream(seed)).tolist()
            assert asked.notes["weights"] == [1.0, 1.0]
            assert asked.notes["importance"] == [0.5] * 3
            assert set(chosen) == set(select(asked.notes["arm"], query([0, 1]), 3, stream(0)).tolist())
            seen.append(asked.notes["arm"])
        assert 18 <= seen.count("coreset") <= 42  # three standard deviations

    @pytest.mark.parametrize("arm", ARMS)
    def test_second_query_by_hand(self, arm):
        last = {"arm": arm, "weights": [1.0, 1.0], "importance": [0.5, 0.5]}
        asked = query([0, 1, 0, 0], [last])  # right: 0, 1 and 2; the last is wrong
        select("albl", asked, 2, stream(0))
        reward = (1 / 1 + 1 / 1 + 1 / 0.5 + 0 / 0.5) / 4
        grown = math.exp(0.05 / 2 * (reward + 1 / 0.5 * math.sqrt(math.log(2 / 0.1) / 2)))
        expected = [1.0, 1.0]
        expected[ARMS.index(arm)] = grown  # and the other is what it was
        assert asked.notes["weights"] == pytest.approx(expected, rel=1e-14)
        assert asked.notes["weights"][1 - ARMS.index(arm)] == 1.0
        p = [0.9 * w / sum(expected) + 0.05 for w in expected]
        assert asked.notes["importance"] == pytest.approx([p[ARMS.index(asked.notes["arm"])]] * 2)

    def test_every_label_keeps_the_importance_it_was_bought_with(self):
        first = {"arm": "coreset", "weights": [1.0, 1.0], "importance": [0.5]}
        second = {"arm": "least-confidence", "weights": [1.0, 1.3], "importance": [0.45, 0.45, 0.45]}
        asked = query([0, 0, 0, 1, 1, 1], [first, second])  # right: 0, 2, 3, 5
        select("albl", asked, 1, stream(0))
        reward = (1 + 0 + 1 / 0.5 + 1 / 0.45 + 0 + 1 / 0.45) / 6
        grown = math.exp(0.05 / 2 * (reward + 1 / 0.45 * math.sqrt(math.log(2 / 0.1) / 2)))
        assert asked.notes["weights"] == pytest.approx([grown, 1.3], rel=1e-14)

    def test_the_arm_is_drawn_by_its_probability(self):
        last = {"arm": "coreset", "weights": [1.0, 8.0], "importance": [0.85, 0.85]}
        drawn = []
        for seed in range(200):
            asked = query([0, 1, 0, 1], [last])
            select("albl", asked, 1, stream(seed))
            drawn.append(asked.notes["arm"])
        w = asked.notes["weights"][1]
        expected = 0.9 * w / (1 + w) + 0.05
        assert abs(drawn.count("coreset") / 200 - expected) < 3 * math.sqrt(expected * (1 - expected) / 200)


class TestExp4p:
    LEAST = math.sqrt(math.log(3) / (3 * 60))

    def test_first_query_by_hand(self):
        """One label: with probability 1/3 each that of least confidence (1), of core-set (0), or any of the five."""
        counts = np.zeros(5)
        for seed in range(300):
            asked = query([0, 1])
            (chosen,) = select("albl+bandit=exp4p", asked, 1, stream(seed))
            counts[chosen] += 1
            q = 1 / 15 + (chosen in (0, 1)) / 3
            assert asked.notes["importance"] == pytest.approx([q])
            assert asked.notes["advice"] == [[float(chosen == 1), float(chosen == 0), 0.2]]
            assert asked.notes["weights"] == [1.0, 1.0, 1.0]
        expected = 300 * np.array([0.4, 0.4, 1 / 15, 1 / 15, 1 / 15])
        assert ((counts - expected) ** 2 / expected).sum() < 18.5  # chi-square, 4 degrees of freedom, p = 0.001

    def test_arms_advise_among_what_is_left(self):
        asked = query([0, 1])
        chosen = select("albl+bandit=exp4p", asked, 5, stream(0)).tolist()
        assert sorted(chosen) == list(range(5))
        assert asked.notes["advice"][-1] == [1.0, 1.0, 1.0]
        assert asked.notes["importance"][-1] == pytest.approx(1)
        doubt = [max(torch.tensor(row).softmax(0).tolist()) for row in POOL]
        for step, (position, advice) in enumerate(zip(chosen, asked.notes["advice"], strict=True)):
            left = [i for i in range(5) if i not in chosen[:step]]
            centres = LABELLED[:2] + [POOL[i] for i in chosen[:step]]
            far = max(left, key=lambda i: min(math.dist(POOL[i], c) for c in centres))
            unsure = min(left, key=doubt.__getitem__)
            assert advice == [float(position == unsure), float(position == far), 1 / len(left)]

    def test_second_query_by_hand(self):
        last = {"weights": [1.0, 2.0, 1.0], "importance": [0.4, 0.1], "advice": [[1.0, 0.0, 0.2], [0.0, 0.0, 0.25]]}
        asked = query([0, 1, 0, 0], [last])  # of the labels bought, the first is right
        select("albl+bandit=exp4p", asked, 1, stream(0))
        reward = (1 / 0.4) / ((4 + 5) * 60)
        expected = []
        for k, w in enumerate(last["weights"]):
            p = (1 - 3 * self.LEAST) * w / 4 + self.LEAST
            for advice, q in zip(last["advice"], last["importance"], strict=True):
                bonus = 1 / p * math.sqrt(math.log(3 / 0.1) / (3 * 60))
                w = w * math.exp(self.LEAST / 2 * (reward * advice[k] / q + bonus))
            expected.append(w)
        assert asked.notes["weights"] == pytest.approx(expected, rel=1e-13)

    @pytest.mark.parametrize("budget", [1, 3, 4])
    def test_a_budget_too_small_for_its_p_min(self, budget):
        asked = query([0, 1])
        select(f"albl+bandit=exp4p+budget={budget}", asked, 2, stream(0))
        last = {"weights": [1.0, 5.0, 1.0], "importance": [1.0, 1.0], "advice": [[0, 1, 0.2]] * 2}
        again = query([0, 1, 0, 1], [last])
        select(f"albl+bandit=exp4p+budget={budget}", again, 1, stream(0))
        assert all(math.isfinite(w) and w > 0 for w in again.notes["weights"])


@pytest.mark.parametrize("strategy", ["albl", "albl+bandit=exp4p"])
def test_notes_are_all_that_must_survive(strategy):
    """Three queries in a row, against the same three with notes that went through a record."""

    def run(keep):
        labelled, labels, pool = LABELLED[:2], [0, 1], list(POOL)
        earlier, bought = [], []
        for cycle in range(3):
            memory = keep(earlier)
            asked = Remembering(Plain(), images(labelled), torch.tensor(labels), images(pool), earlier=memory)
            before = json.dumps(asked.earlier)
            chosen = select(strategy, asked, 1, stream(1, cycle)).tolist()
            assert json.dumps(asked.earlier) == before  # the past is not rewritten
            bought += [pool[i] for i in chosen]
            labelled = labelled + [pool[i] for i in chosen]
            labels = labels + [0 for _ in chosen]
            pool = [row for i, row in enumerate(pool) if i not in chosen]
            earlier = [*earlier, asked.notes]
        return bought, earlier

    assert run(list) == run(lambda earlier: json.loads(json.dumps(earlier)))


@pytest.mark.parametrize("strategy", ["albl", "albl+bandit=exp4p"])
def test_a_plain_query_is_the_first_and_is_noted_in(strategy):
    first = query([0, 1])
    plain = Query(Plain(), first.labelled_images, first.labelled_labels, first.candidates)
    assert select(strategy, plain, 2, stream(0)).tolist() == select(strategy, first, 2, stream(0)).tolist()
    assert plain.notes == first.notes != {}


@pytest.mark.parametrize("strategy", ["albl", "albl+bandit=exp4p"])
def test_the_past_survives_an_oracle(strategy):
    """Who watches what is bought hands on a copy of the query."""
    last = {"arm": "coreset", "weights": [1.0, 1.0, 2.0][: 2 + ("exp4p" in strategy)], "importance": [0.5, 0.5]}
    last["advice"] = [[0.0, 1.0, 0.2]] * 2
    asked = replace(query([0, 1, 0, 1], [last]), oracle=lambda position: 0)
    select(strategy, asked, 1, stream(0))
    assert asked.notes["weights"][1] > 1


@pytest.mark.parametrize("strategy", ["albl", "albl+bandit=exp4p"])
def test_notes_that_are_not_its_own(strategy):
    with pytest.raises(UserError, match="not its own"):
        select(strategy, query([0, 1], [{"condition": 3.0}]), 1, stream(0))
    far = {"arm": "coreset", "weights": [1.0, 1.0], "importance": [0.5] * 7, "advice": [[1, 1, 1]] * 7}
    with pytest.raises(UserError, match="7 labels were bought, but only 2"):
        select(strategy, query([0, 1], [far]), 1, stream(0))


def test_a_network_that_diverged():
    asked = replace(query([0, 1]), candidates=images([[math.nan, 0.0], [1.0, 0.0]]))
    for seed in range(4):
        with pytest.raises(UserError, match=r"NaN|not finite"):
            select("albl", asked, 1, stream(seed))
