"""albl: a bandit that learns whether least confidence or core-set pays (Hsu & Lin 2015, the arms of NPC section 5).

An arm k of K is drawn with probability p_k = (1 - K p_min) w_k / sum w + p_min. Weights w begin at 1 and grow with the
reward: the accuracy on labelled images, each divided by the probability with which it was bought, its importance.

    bandit  batch   the code of BADGE, probably what NPC ran: one arm buys the whole batch, p_min = 1 / (10 K). Before
                    the next query the reward is the mean over all labelled images, initial ones with importance 1 (it
                    can exceed 1), and w_arm <- w_arm exp(p_min / 2 (reward + sqrt(ln(K / delta) / K) / p_arm))
            exp4p   EXP4.P, with a third arm that is uniform, and p_min = sqrt(ln K / (K T)). Each label is drawn from
                    q = sum_k p_k advice_k. Before the next query every label of the last counts,
                    w_k <- w_k exp(p_min / 2 (reward advice_k / q + sqrt(ln(K / delta) / (K T)) / p_k)),
                    the reward being sum(correct / q) / (n T) over all labels bought, of n images in all

`budget` is T, the labels that a run buys, for exp4p alone: 60 in NPC's Table 1. EXP4.P as published trains after every
label and may draw an image again, for free; here p and the network are renewed after every batch.

What is learnt lives in the notes of a query and comes back with the next one, a `Remembering`. Labelled images must be
in the order in which they were bought, the initial ones first. To a plain `Query` every query is the first.
"""

from dataclasses import fields

import numpy as np
import torch

from bench.core.errors import UserError
from bench.learn.train import predict
from bench.strategies import Query, coreset, least_confidence, top
from bench.strategies._memory import Remembering

OPTIONS = {"bandit": ("batch", "exp4p"), "budget": 60}
ARMS = {"least-confidence": least_confidence.select, "coreset": coreset.select}
DELTA = 0.1  # in both codes: the bound holds with probability 1 - delta


def select(query: Query, size: int, stream: np.random.Generator, bandit: str, budget: int) -> np.ndarray:
    if not isinstance(query, Remembering):
        query = Remembering(**{each.name: getattr(query, each.name) for each in fields(query)})  # with the same notes
    return _batch(query, size, stream) if bandit == "batch" else _exp4p(query, size, stream, budget)


def probabilities(weights: np.ndarray, least: float) -> np.ndarray:
    """p (K,): at least `least` each, the rest in proportion to the weights."""
    return (1 - len(weights) * least) * weights / weights.sum() + least


def _batch(query: Remembering, size: int, stream: np.random.Generator) -> np.ndarray:
    names = list(ARMS)
    weights, least = np.ones(len(names)), 1 / (10 * len(names))
    if query.earlier:
        last = query.earlier[-1]
        weights = _weights(query)
        reward = _rewards(query).mean()
        bonus = np.sqrt(np.log(len(names) / DELTA) / len(names)) / last["importance"][0]
        weights[names.index(last["arm"])] *= np.exp(least / 2 * (reward + bonus))
    p = probabilities(weights, least)
    arm = int(stream.choice(len(names), p=p))
    query.notes |= {"arm": names[arm], "weights": weights.tolist(), "importance": [float(p[arm])] * size}
    return ARMS[names[arm]](query, size, stream)


def _exp4p(query: Remembering, size: int, stream: np.random.Generator, budget: int) -> np.ndarray:
    count = len(ARMS) + 1  # K, the uniform arm last
    weights = np.ones(count)
    least = min(1 / count, np.sqrt(np.log(count) / (count * budget)))  # a budget of 3 or less leaves nothing to learn
    if query.earlier:
        last = query.earlier[-1]
        weights = _weights(query)
        images = len(query.labelled_labels) + len(query.candidates)
        reward = _rewards(query)[-_bought(query) :].sum() / (images * budget)
        shares = np.array(last["advice"]) / np.array(last["importance"])[:, None]  # advice_k / q, (Q, K)
        bonus = np.sqrt(np.log(count / DELTA) / (count * budget)) / probabilities(weights, least)  # (K,)
        weights = weights * np.exp(least / 2 * (reward * shares + bonus).sum(0))
    p = probabilities(weights, least)
    doubt = -query.outputs.softmax(1).amax(1)  # (U,), of least confidence
    pool, known = (
        predict(query.net, images, of=query.net.features).double()
        for images in (query.candidates, query.labelled_images)
    )
    left, bought, importance, advised = torch.arange(len(pool)), [], [], []
    while len(bought) < size:
        centres = torch.cat([known, pool[bought]])
        advice = np.zeros((count, len(left)))
        advice[0, top(doubt[left], 1, stream)[0]] = 1
        advice[1, coreset.greedy_k_centre(pool[left], centres, 1, stream)[0]] = 1
        advice[2] = 1 / len(left)
        q = p @ advice  # (U,)
        drawn = int(stream.choice(len(left), p=q))
        importance.append(float(q[drawn]))
        advised.append(advice[:, drawn].tolist())
        bought.append(int(left[drawn]))
        left = left[left != bought[-1]]
    query.notes |= {"weights": weights.tolist(), "importance": importance, "advice": advised}
    return np.array(bought)


def _weights(query: Remembering) -> np.ndarray:
    """Those of the last query, before its reward."""
    if not all({"weights", "importance"} <= notes.keys() for notes in query.earlier):
        raise UserError(
            "albl: the notes of an earlier query are not its own; hand it the notes of its own run, or none"
        )
    if _bought(query) > len(query.labelled_labels):
        raise UserError(
            f"albl: by its notes {_bought(query)} labels were bought, but only {len(query.labelled_labels)} are there"
        )
    return np.array(query.earlier[-1]["weights"])


def _bought(query: Remembering) -> int:
    return sum(len(notes["importance"]) for notes in query.earlier)


def _rewards(query: Remembering) -> np.ndarray:
    """1[prediction = label] / importance of every labelled image, (L,), in the order bought."""
    initial = np.ones(len(query.labelled_labels) - _bought(query))
    importance = np.concatenate([initial, *(notes["importance"] for notes in query.earlier)])
    correct = predict(query.net, query.labelled_images).argmax(1) == query.labelled_labels
    return correct.cpu().numpy() / importance
