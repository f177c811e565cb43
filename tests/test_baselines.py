"""BADGE, core-set and LL4AL against slow, obvious references."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from speeds import some
from torch import nn

from bench import nets, strategies
from bench.core.config import load
from bench.core.errors import UserError
from bench.core.journal import Journal
from bench.core.seeds import stream, torch_stream
from bench.learn import data
from bench.learn.sgd import SGD
from bench.learn.train import Recipe, loss_of, predict
from bench.strategies import Query, badge, coreset, ll4al, select
from bench.strategies._distances import squared_distances
from bench.studies.lookahead import Cell
from bench.studies.lookahead import run as lookahead

RECIPE = replace(Recipe(**load("paper")["lookahead"]["recipes"]["l2"]), epochs=5, batch=4, lr=0.1)
SHAPE, CLASSES = (1, 8, 8), 4
NETS = {"wrn+layers=2": 8, "resnet18": 1, "convnet+depth=2": 1, "fcn": 8}  # and a width


def build(spec="wrn+layers=2"):
    return nets.build(spec, SHAPE, CLASSES, NETS[spec], torch_stream(0, "init")).eval()


def images(count, seed=0):
    return torch.rand(count, *SHAPE, generator=torch_stream(seed, "data"))


def labels(count):
    return torch.arange(count) % CLASSES


# BADGE


def direct_kmeans_plus_plus(points, size, stream):
    """On materialised embeddings (U, D), distances as differences."""
    chosen = [int(strategies.top(points.square().sum(1), 1, stream)[0])]
    while len(chosen) < size:
        nearest = torch.stack([(points - points[c]).square().sum(1) for c in chosen]).amin(0).numpy()
        if nearest.any():
            chosen.append(int(stream.choice(len(points), p=nearest / nearest.sum())))
        else:
            rest = [i for i in range(len(points)) if i not in chosen]
            chosen += stream.permutation(rest)[: size - len(chosen)].tolist()
    return chosen


@given(st.integers(2, 40), st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6), st.data())
def test_rank_one_trick_chooses_what_the_direct_way_chooses(count, d, classes, seed, data):
    size = data.draw(st.integers(1, count))
    generator = torch_stream(seed)
    h = torch.randn(count, d, generator=generator, dtype=torch.double)
    q = torch.randn(count, classes, generator=generator, dtype=torch.double)
    embeddings = torch.einsum("no,nd->nod", q, h).flatten(1)  # (U, O d)
    fast = badge.kmeans_plus_plus(h, q, size, stream(seed))
    assert fast.tolist() == direct_kmeans_plus_plus(embeddings, size, stream(seed))


def test_badge_embeds_by_the_gradient_of_the_last_layer():
    net, x = build(), images(30)
    embeddings = []
    for image in x:
        outputs = net(image[None])
        loss = nn.functional.cross_entropy(outputs, outputs.argmax(1))
        embeddings.append(torch.autograd.grad(loss, net.head.weight)[0].flatten().double())
    chosen = select("badge", Query(net, x, labels(30), x), 12, stream(0))
    assert chosen.tolist() == direct_kmeans_plus_plus(torch.stack(embeddings), 12, stream(0))


def test_badge_never_takes_a_duplicate_while_there_is_something_else():
    h = torch.tensor([[1.0, 0.3]] * 5 + [[0.2, 0.9]] * 5 + [[0.4, 0.1]], dtype=torch.double)
    q = torch.ones(11, 1, dtype=torch.double)
    groups = {0: set(range(5)), 1: set(range(5, 10)), 2: {10}}
    rest = set()
    for seed in range(20):
        chosen = badge.kmeans_plus_plus(h, q, 6, stream(seed)).tolist()
        assert all(len(group & set(chosen[:3])) == 1 for group in groups.values())
        assert len(set(chosen)) == 6
        rest |= set(chosen)
    assert rest == set(range(11))


def test_a_badge_pool_without_any_gradient_is_drawn_uniformly():
    chosen = [badge.kmeans_plus_plus(torch.zeros(6, 2), torch.zeros(6, 3), 3, stream(seed)) for seed in range(400)]
    counts = np.bincount(np.concatenate(chosen), minlength=6)
    assert all(len(set(each)) == 3 for each in chosen)
    assert ((counts - 200) ** 2 / 200).sum() < 20.5  # chi-square, 5 degrees of freedom, p = 0.001


@given(st.integers(1, 30), st.integers(0, 10**6))
def test_distances_are_exact_and_those_of_one_image_in_two_batches_are_zero(d, seed):
    generator = torch_stream(seed)
    a, b = torch.randn(2, 6, d, generator=generator, dtype=torch.double)
    squares = lambda points: points.square().sum(1)  # noqa: E731
    squared = squared_distances(a @ b.T, squares(a)[:, None], squares(b))
    torch.testing.assert_close(squared, (a[:, None] - b).square().sum(2))
    rounded = a * (1 + 2e-7 * torch.rand(6, d, generator=generator, dtype=torch.double))  # as float32 would
    assert not squared_distances((a * rounded).sum(1), squares(a), squares(rounded)).any()


@pytest.mark.parametrize("strategy", ["badge", "coreset", "ll4al"])
def test_features_that_are_not_numbers_are_refused(strategy):
    net = strategies.network(strategy, build(), torch_stream(0, "init"))
    x = images(6)
    x[2] = torch.nan
    with pytest.raises(UserError, match="acquisition scores are not finite"):
        select(strategy, Query(net, images(3), labels(3), x), 2, stream(0))


# Core-set

GRID = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=1, max_size=8)


def radius(points, centres):
    return max(min(np.hypot(*(np.subtract(p, c))) for c in centres) for p in points)


@given(GRID, GRID, st.data())
def test_k_centre_is_greedy_and_within_twice_the_best_radius(points, labelled, data):
    size = data.draw(st.integers(1, len(points)))
    tensors = (torch.tensor(part, dtype=torch.double) for part in (points, labelled))
    chosen = coreset.greedy_k_centre(*tensors, size, stream(data.draw(st.integers(0, 99)))).tolist()
    assert len(set(chosen)) == size
    for step, latest in enumerate(chosen):
        centres = labelled + [points[i] for i in chosen[:step]]
        assert radius([points[latest]], centres) == radius(points, centres)  # the farthest of all
    reached = radius(points, labelled + [points[i] for i in chosen])
    best = min(radius(points, labelled + list(some)) for some in itertools.combinations(points, size))
    assert reached <= 2 * best + 1e-12


def test_core_set_looks_at_penultimate_features_in_blocks(monkeypatch):
    net, x = build(), images(30)
    with torch.no_grad():
        h = net.features(x).double().numpy()
    centres, expected = list(range(7)), []
    for _ in range(5):
        distances = [min(np.linalg.norm(h[i] - h[c]) for c in centres) for i in range(7, 30)]
        expected.append(int(np.argmax(distances)))
        centres.append(7 + expected[-1])
    for block in (1000, 3):
        monkeypatch.setattr(coreset, "BLOCK", block)
        assert select("coreset", Query(net, x[:7], labels(7), x[7:]), 5, stream(0)).tolist() == expected


def test_core_set_ties_are_broken_by_the_stream():
    square = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], dtype=torch.double)
    centre = torch.zeros(1, 2, dtype=torch.double)
    assert {int(coreset.greedy_k_centre(square, centre, 1, stream(seed))[0]) for seed in range(40)} == {0, 1, 2, 3}


# LL4AL


def with_head(spec="wrn+layers=2"):
    return strategies.network("ll4al", build(spec), torch_stream(0, "init"))


def test_ranking_loss_by_hand():
    predicted = torch.tensor([3.0, 0.2, 9.0, 0.5, 1.0])
    losses = torch.tensor([2.0, 7.0, 5.0, 4.0, 2.0])
    # (0, 4): equal losses count as not larger, so 1 + (3 - 1); (1, 3): 7 > 4, so 1 - (0.2 - 0.5); 2 has no partner
    assert ll4al.ranking_loss(predicted, losses).item() == pytest.approx((3.0 + 1.3) / 2)
    assert ll4al.ranking_loss(torch.tensor([5.0, 1.0]), torch.tensor([2.0, 1.0])).item() == 0  # right by the margin


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0, 5)), max_size=9))
def test_ranking_loss_pair_by_pair(rows):
    total, count = 0.0, len(rows) // 2
    for i in range(count):
        (ours, our_loss), (theirs, their_loss) = rows[i], rows[-1 - i]
        total += max(0, 1 - (1 if our_loss > their_loss else -1) * (ours - theirs))
    predicted, losses = torch.tensor(rows, dtype=torch.double).reshape(-1, 2).T
    assert ll4al.ranking_loss(predicted, losses).item() == pytest.approx(total / max(count, 1))


@pytest.mark.parametrize("name", ["mse", "mse-sum", "cross-entropy"])
def test_losses_of_images_average_to_the_recipe_s_loss(name):
    outputs, y = torch.randn(7, CLASSES, generator=torch_stream(0)), labels(7)
    alone = [loss_of(name, outputs[i : i + 1], y[i : i + 1]) for i in range(7)]
    torch.testing.assert_close(ll4al.sample_losses(name, outputs, y), torch.stack(alone))


def gradients(net, loss, stop, weight=1.0, backbone_only=False):
    """Gradients of network and head, as two flat vectors."""
    net.zero_grad()
    x, y = images(6), labels(6)
    (loss_of(loss, net(x), y) if backbone_only else ll4al.objective(net, x, y, loss, weight, stop)).backward()
    own = {id(parameter) for parameter in net.net.parameters()}
    parts = {True: [], False: []}
    for parameter in net.parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        parts[id(parameter) in own].append(gradient.flatten())
    return torch.cat(parts[True]), torch.cat(parts[False])


@pytest.mark.parametrize("spec", NETS)
def test_the_gradient_of_the_head_is_stopped(spec):
    net = with_head(spec)
    alone, _ = gradients(net, "mse", stop=False, backbone_only=True)
    stopped, head = gradients(net, "mse", stop=True)
    torch.testing.assert_close(stopped, alone)
    assert head.abs().max() > 0
    flowing, same_head = gradients(net, "mse", stop=False)
    assert not torch.allclose(flowing, alone)
    torch.testing.assert_close(same_head, head)


@pytest.mark.parametrize("stop", [False, True])
def test_the_published_loss_has_classes_times_the_gradient(stop):
    net = with_head()
    published, head = gradients(net, "mse-sum", stop)
    scaled, scaled_head = gradients(net, "mse", stop, weight=1 / CLASSES)
    torch.testing.assert_close(published, CLASSES * scaled)
    torch.testing.assert_close(head, CLASSES * scaled_head)
    mean, mean_head = gradients(net, "mse", stop)
    torch.testing.assert_close(mean_head, head)  # the order of losses is what it was
    assert torch.allclose(published, CLASSES * mean) == stop


def fitted(strategy, recipe, x, y, **saving):
    net = strategies.network(strategy, build(), torch_stream(0, "init"))
    strategies.fit(strategy, net, x, y, recipe, 0, 0, **saving)
    return net


def assert_equal_bits(one, other):
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


def test_the_loss_option_is_about_averaged_squared_loss_only():
    x, y = images(9), labels(9)
    for loss, kinds in (("mse", 2), ("mse-sum", 1), ("cross-entropy", 1)):
        recipe = replace(RECIPE, loss=loss, epochs=2)
        nets = [fitted(name, recipe, x, y) for name in ("ll4al", "ll4al+loss=sum")]
        assert len({tuple(net.net.head.weight.flatten().tolist()) for net in nets}) == kinds


def test_the_default_is_the_published_objective_at_another_rate():
    x, y = images(10), labels(10)
    recipe = replace(RECIPE, weight_decay=0.0, lr=0.02)
    scaled = fitted("ll4al", replace(recipe, lr=CLASSES * recipe.lr), x, y)
    published = fitted("ll4al+loss=sum", recipe, x, y)
    for ours, theirs in zip(scaled.parameters(), published.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_one_optimiser_does_what_the_published_two_do():
    x, y = images(10), labels(10)
    recipe = replace(RECIPE, weight_decay=1e-2)
    net = with_head()
    slow = copy.deepcopy(net).train()
    strategies.fit("ll4al", net, x, y, recipe, 0, 0)
    settings = {"lr": recipe.lr, "momentum": recipe.momentum, "weight_decay": recipe.weight_decay}
    pair = [
        SGD(parameters, **settings)
        for parameters in (slow.net.parameters(), [*slow.hidden.parameters(), *slow.last.parameters()])
    ]
    schedules = [torch.optim.lr_scheduler.OneCycleLR(each, max_lr=recipe.lr, total_steps=5 * 3) for each in pair]
    for epoch in range(5):
        for batch in torch.randperm(10, generator=torch_stream(0, "batches", 0, epoch)).split(4):
            loss = ll4al.objective(slow, x[batch], y[batch], "mse", 1 / CLASSES, stop=epoch > 3)  # 60% of 5 is 3
            for optimiser in pair:
                optimiser.zero_grad()
            loss.backward()
            for each in (*pair, *schedules):
                each.step()
    assert_equal_bits(slow, net)


@pytest.mark.parametrize(("epochs", "stopped"), [(200, 121), (5, 4), (15, 10), (1, None)])
def test_when_the_gradient_is_stopped(monkeypatch, epochs, stopped):
    seen = []
    objective = lambda net, x, y, loss, weight, stop: seen.append(stop) or loss_of(loss, net(x), y)  # noqa: E731
    monkeypatch.setattr(ll4al, "objective", objective)
    fcn = strategies.network("ll4al", build("fcn"), torch_stream(0, "init"))
    strategies.fit("ll4al", fcn, images(2), labels(2), replace(RECIPE, epochs=epochs), 0, 0)
    assert len(seen) == epochs
    assert seen == [stopped is not None and epoch >= stopped for epoch in range(epochs)]


@pytest.mark.parametrize("strategy", ["ll4al", "ll4al+loss=sum"])
def test_resumed_after_any_epoch_gives_the_same_bits(strategy):
    x, y, saved = images(9), labels(9), []
    whole = fitted(strategy, RECIPE, x, y, save=lambda state: saved.append(copy.deepcopy(state)), save_every=1)
    assert len(saved) == RECIPE.epochs - 1
    for state in saved:
        assert_equal_bits(whole, fitted(strategy, RECIPE, x, y, resume=state))


@pytest.mark.parametrize("spec", NETS)
def test_the_head_changes_nothing_of_the_network_and_rests_in_its_state(spec):
    plain, net, x = build(spec), with_head(spec), images(5)
    assert torch.equal(predict(net, x), predict(plain, x))
    assert net.predicted_loss(x).shape == (5,)
    assert_equal_bits(net, with_head(spec))
    other = strategies.network("ll4al", build(spec), torch_stream(1, "init"))
    assert not torch.equal(other.last.weight, net.last.weight)
    other.load_state_dict(net.state_dict())
    assert torch.equal(other.predicted_loss(x), net.predicted_loss(x))


def test_the_head_sees_the_mean_of_every_stage():
    net, x = with_head("resnet18"), images(5)
    h, hidden = net.net.act(net.net.bn(net.net.conv(x))), []
    for stage, linear in zip(net.net.stages, net.hidden, strict=True):
        h = stage(h)
        hidden.append(torch.relu(linear(h.mean((2, 3)))))
    assert [linear.in_features for linear in net.hidden] == [16, 32, 64, 128]
    torch.testing.assert_close(net.predicted_loss(x), net.last(torch.cat(hidden, 1))[:, 0])


def test_batches_of_one():
    net = with_head("fcn")
    strategies.fit("ll4al", net, images(5), labels(5), RECIPE, 0, 0)  # batches of 4 and 1
    assert all(torch.isfinite(parameter).all() for parameter in net.parameters())
    tiny = strategies.network(
        "ll4al", nets.build("resnet18", (1, 8, 8), 2, 1, torch_stream(0, "init")), torch_stream(0)
    )
    with pytest.raises(UserError, match="leaves no rest of 1"):
        strategies.fit("ll4al", tiny, images(5), labels(5) % 2, RECIPE, 0, 0)


def test_the_head_learns_which_images_have_the_larger_loss():
    """Bright images carry labels at random, dark ones always the same: only bright ones cannot be learnt."""
    x = images(64) * 0.1
    x[::2] += 0.9
    y = torch.zeros(64, dtype=torch.long)
    y[::2] = torch.randint(0, CLASSES, (32,), generator=torch_stream(3))
    recipe = replace(RECIPE, epochs=20, batch=16, lr=0.05)
    net = with_head()
    strategies.fit("ll4al", net, x, y, recipe, 0, 0)
    fresh = images(40, seed=9) * 0.1
    fresh[:15] += 0.9
    chosen = select("ll4al", Query(net, x, y, fresh), 15, stream(0))
    assert set(chosen.tolist()) == set(range(15))
    predicted = predict(net, fresh, of=net.predicted_loss)
    assert chosen.tolist() == predicted.argsort(descending=True)[:15].tolist()


class Killed(Exception):
    pass


@some("moment", [1, 2, 3], always=[3])  # in the first training, after the first query, in the second training
def test_a_cell_goes_on_with_network_and_head_where_it_was_killed(settings, root, tmp_path, monkeypatch, moment):
    cell, cpu = Cell("digits", "wrn", 8, "l2", "ll4al", 0), torch.device("cpu")

    def run(name):
        journal = Journal(tmp_path / name, "test", cpu, save_every=2)
        journal.open()
        return lookahead.run(cell, settings, data.load("digits", root), cpu, journal)

    whole = run("whole.pt")
    save, count = Journal.save, itertools.count(1)

    def deadly(self, state):
        save(self, state)
        if next(count) == moment:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "save", deadly)
        with pytest.raises(Killed):
            run("killed.pt")
    assert run("killed.pt") == whole
    assert len(whole["cycles"]) == 3
