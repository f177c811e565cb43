"""Training: losses by hand, schedules as specified, exact resumption, divergence noticed at once."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from bench.core.config import load
from bench.learn.sgd import SGD
from bench.learn.train import Diverged, Recipe, evaluate, fit, loss_of, predict

RECIPE = Recipe(**load("paper")["lookahead"]["recipes"]["l2"])
SMALL = replace(RECIPE, epochs=6, batch=4, lr=0.1)


@pytest.fixture
def problem():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(10, 1, 4, 4, generator=generator)
    y = torch.randint(0, 3, (10,), generator=generator)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    return net, x, y


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def test_losses_by_hand():
    outputs, labels = torch.tensor([[0.5, 0.2], [0.0, 2.0]]), torch.tensor([0, 1])
    squares = [0.25, 0.04, 0.0, 1.0]
    assert loss_of("mse", outputs, labels).item() == pytest.approx(sum(squares) / 4)
    assert loss_of("mse-sum", outputs, labels).item() == pytest.approx(sum(squares) / 2)
    log = [math.log(1 + math.exp(0.2 - 0.5)), math.log(1 + math.exp(0.0 - 2.0))]
    assert loss_of("cross-entropy", outputs, labels).item() == pytest.approx(sum(log) / 2)


def trace(recipe, net, x, y, monkeypatch):
    """(lr, momentum) at every step."""
    seen, step = [], SGD.step

    def spy(self, *words):
        group = self.param_groups[0]
        seen.append((group["lr"], group["momentum"], group["weight_decay"]))
        return step(self, *words)

    monkeypatch.setattr(SGD, "step", spy)
    fit(net, x, y, recipe, 0, 0)
    return seen


def test_onecycle_is_torchs_default(problem, monkeypatch):
    seen = trace(SMALL, *problem, monkeypatch)
    assert len(seen) == 6 * 3  # the last, smaller batch is kept
    up = 0.3 * 18 - 1
    for step, (lr, momentum, decay) in enumerate(seen):
        first, last, done = (0.1 / 25, 0.1, step / up) if step <= up else (0.1, 0.1 / 25 / 1e4, (step - up) / (17 - up))
        assert lr == pytest.approx(last + (first - last) * (1 + math.cos(math.pi * done)) / 2)
        share = (1 - math.cos(math.pi * done)) / 2
        assert momentum == pytest.approx(0.95 - 0.1 * (share if step <= up else 1 - share))
        assert decay == 1e-4


def test_momentum_stays_without_cycling(problem, monkeypatch):
    seen = trace(replace(SMALL, cycle_momentum=False), *problem, monkeypatch)
    assert {momentum for _, momentum, _ in seen} == {0.9}


def test_constant_and_cosine(problem, monkeypatch):
    net, x, y = problem
    with monkeypatch.context() as patch:
        assert {lr for lr, _, _ in trace(replace(SMALL, schedule="constant"), copy.deepcopy(net), x, y, patch)} == {0.1}
    for step, (lr, _, _) in enumerate(trace(replace(SMALL, schedule="cosine"), net, x, y, monkeypatch)):
        assert lr == pytest.approx(0.05 * (1 + math.cos(math.pi * step / 18)))


def test_one_step_is_sgd_by_hand():
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    x, y = torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 1, 0, 1])
    weight = net[1].weight.detach().clone()
    residual = net(x).detach() - nn.functional.one_hot(y, 2)  # (5, 2)
    gradient = 2 / (5 * 2) * residual.T @ x.flatten(1)  # of the mean over images and classes
    fit(net, x, y, replace(RECIPE, schedule="constant", lr=0.3, epochs=1), 0, 0)
    torch.testing.assert_close(net[1].weight, weight - 0.3 * (gradient + 1e-4 * weight))


@pytest.mark.parametrize("augment", ["none", "flip-crop"])
@pytest.mark.parametrize("schedule", ["onecycle", "constant", "cosine"])
def test_resumed_after_any_epoch_gives_the_same_bits(problem, schedule, augment):
    net, x, y = problem
    recipe, saved = replace(SMALL, schedule=schedule, augment=augment), []
    whole = copy.deepcopy(net)
    fit(whole, x, y, recipe, 3, 1, save=lambda state: saved.append(copy.deepcopy(state)), save_every=1)
    assert [state["epoch"] for state in saved] == [1, 2, 3, 4, 5]
    for state in saved:
        resumed = copy.deepcopy(net)
        fit(resumed, x, y, recipe, 3, 1, resume=state)
        assert_same(resumed.state_dict(), whole.state_dict())


def watched(net, problem, at, recipe=SMALL, **more):
    """What looks see: (epochs, weights and statistics, whether in evaluation mode)."""
    seen, (_, x, y) = [], problem
    look = lambda net, epoch: seen.append((epoch, copy.deepcopy(net.state_dict()), not net.training))  # noqa: E731
    fit(net, x, y, recipe, 3, 1, at=at, look=look, **more)
    return seen


def test_a_network_can_be_looked_at_after_given_epochs(problem):
    start, x, y = problem
    plain, states = copy.deepcopy(start), {}
    save = lambda state: states.update({state["epoch"]: copy.deepcopy(state["net"])})  # noqa: E731
    fit(plain, x, y, SMALL, 3, 1, save=save, save_every=1)
    states |= {0: start.state_dict(), SMALL.epochs: plain.state_dict()}
    net = copy.deepcopy(start)
    seen = watched(net, problem, at=[0, 2, 5, 6])
    assert [epoch for epoch, _, _ in seen] == [0, 2, 5, 6]
    for epoch, state, evaluating in seen:
        assert_same(state, states[epoch])
        assert evaluating
    assert_same(net.state_dict(), plain.state_dict())  # looking changes nothing
    assert not net.training


def test_a_look_that_was_saved_is_not_repeated(problem):
    start, saved = problem[0], []
    at = [0, 2, 3, 6]
    keep = lambda state: saved.append(copy.deepcopy(state))  # noqa: E731
    whole = copy.deepcopy(start)
    looks = watched(whole, problem, at, save=keep, save_every=4)
    assert [state["epoch"] for state in saved] == [0, 2, 3, 4, 6]  # after every look, and as often as asked
    for state in saved:
        resumed = copy.deepcopy(start)
        again = watched(resumed, problem, at, resume=state)
        assert [epoch for epoch, _, _ in again] == [epoch for epoch in at if epoch > state["epoch"]]
        for (_, ours, _), (_, theirs, _) in zip(again, looks[-len(again) or len(looks) :], strict=True):
            assert_same(ours, theirs)
        assert_same(resumed.state_dict(), whole.state_dict())


def test_a_network_that_blew_up_is_not_looked_at(problem):
    for parameter in problem[0].parameters():
        parameter.data *= 1e3
    wild = replace(SMALL, lr=1e38, schedule="constant", batch=10, weight_decay=0.5)
    with pytest.raises(Diverged) as failure:
        watched(problem[0], problem, at=[1], recipe=wild)
    assert (failure.value.cycle, failure.value.epoch) == (1, 0)


def test_cycles_and_seeds_train_differently(problem):
    net, x, y = problem
    results = []
    for seed, cycle in ((0, 0), (0, 1), (1, 0), (0, 0)):
        copied = copy.deepcopy(net)
        fit(copied, x, y, SMALL, seed, cycle)
        results.append(copied[0].weight)
    assert torch.equal(results[0], results[3])
    assert not torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_divergence_is_noticed_at_once(problem, monkeypatch):
    with pytest.raises(Diverged) as failure:
        fit(*problem, replace(SMALL, lr=1e30, schedule="constant"), 0, 2)
    assert (failure.value.cycle, failure.value.epoch, failure.value.lr) == (2, 0, 1e30)
    assert "cycle 3, epoch 1" in str(failure.value)


def test_a_last_step_that_blows_up_is_noticed(problem):
    net, x, y = problem
    recipe = replace(SMALL, lr=1e38, schedule="constant", epochs=1, batch=10, weight_decay=0.5)
    for parameter in net.parameters():
        parameter.data *= 1e3
    with pytest.raises(Diverged):
        fit(net, x, y, recipe, 0, 0)


def test_evaluation_is_exact_and_leaves_evaluation_mode(problem):
    net, x, y = problem
    net.train()
    accuracy, loss = evaluate(net, x, y, "mse")
    assert not net.training
    outputs = torch.stack([net(image[None])[0] for image in x])
    assert accuracy == pytest.approx((outputs.argmax(1) == y).float().mean().item())
    assert loss == pytest.approx(loss_of("mse", outputs, y).item(), rel=1e-5)
    torch.testing.assert_close(predict(net, x, batch=3), outputs)


def test_the_recipe_fits_its_labels(problem):
    net, x, y = problem
    fit(net, x, y, replace(RECIPE, epochs=100, lr=0.5), 0, 0)
    accuracy, loss = evaluate(net, x, y, "mse")
    assert accuracy == 1
    assert loss < 1e-2


def test_global_random_state_is_untouched(problem):
    before = torch.get_rng_state()
    fit(*problem, replace(SMALL, augment="flip-crop"), 0, 0)
    assert torch.equal(before, torch.get_rng_state())
