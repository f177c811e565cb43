"""FixMatch: a step by hand, order, schedule, averages, DARP's timing, exact resumption."""

import copy
import math
from dataclasses import replace

import pytest
import torch

from bench import nets
from bench.core.errors import UserError
from bench.core.journal import Journal
from bench.core.seeds import torch_stream
from bench.learn import darp
from bench.learn.fixmatch import Settings, _Order, fit
from bench.learn.randaugment import OPERATIONS, Views
from bench.learn.sgd import SGD
from bench.learn.train import Diverged, evaluate

VIEWS = Views(flip=False, operations=OPERATIONS["digits"], cutout=0.3)
SMALL = Settings(steps=12, epoch=4, batch=4, mu=2, threshold=0.4, lr=0.1)  # three classes: chance is 1/3


@pytest.fixture
def problem():
    """A net, a pool of 20 images, the places and labels of three of them."""
    x = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    net = nets.build("wrn", (1, 8, 8), 3, 4, torch_stream(0, "init"))
    return net, x, torch.tensor([3, 11, 7]), torch.tensor([0, 1, 2])


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def trained(problem, settings=SMALL, seed=5, cycle=1, **more):
    """(net, running average) after training a copy."""
    net, x, labelled, y = problem
    net = copy.deepcopy(net)
    return net, fit(net, x, labelled, y, settings, VIEWS, seed, cycle, shown=False, **more)


def test_the_defaults_are_the_papers():
    s = Settings()
    assert (s.batch, s.mu, s.threshold, s.lambda_u, s.lr, s.momentum) == (64, 7, 0.95, 1, 0.03, 0.9)
    assert (s.steps, s.epochs, s.weight_decay, s.ema, s.darp_alpha, s.darp_refresh) == (2**20, 1024, 5e-4, 0.999, 2, 10)


def loss_by_hand(net, problem, settings, seed, cycle):
    """The loss of step 0, image by image."""
    _, x, labelled, y = problem
    known = _Order(len(labelled), seed, cycle, "labelled").batch(0, settings.batch)
    pool = _Order(len(x), seed, cycle, "pool").batch(0, settings.mu * settings.batch)
    noise = torch_stream(seed, "augment", cycle, 0)
    if settings.mode != "fixmatch":
        view = VIEWS.weak if settings.mode == "supervised-weak" else VIEWS.strong
        logs = net(view(x[labelled[known]], noise)).log_softmax(1)
        return -sum(row[y[index]] for row, index in zip(logs, known, strict=True)) / len(known)
    groups = [VIEWS.weak(x[labelled[known]], noise), VIEWS.weak(x[pool], noise), VIEWS.strong(x[pool], noise)]
    logs, weak, strong = net(torch.cat(groups)).log_softmax(1).split([len(group) for group in groups])
    loss = -sum(row[y[index]] for row, index in zip(logs, known, strict=True)) / len(known)
    count = 0
    for says, told in zip(weak.exp(), strong, strict=True):
        if says.max() >= settings.threshold:
            loss = loss - settings.lambda_u * told[says.argmax()] / len(pool)
            count += 1
    assert 0 < count < len(pool)  # some are sure, some are not: the division by all of them shows
    return loss


@pytest.mark.parametrize("mode", Settings.MODES)
def test_one_step_by_hand(problem, mode):
    settings = replace(SMALL, mode=mode, steps=1, weight_decay=0.1, lambda_u=2.0, ema=0.7)
    before = copy.deepcopy(problem[0]).train()
    loss_by_hand(before, problem, settings, 5, 1).backward()
    net, average = trained(problem, settings)
    for start, now, mean in zip(before.parameters(), net.parameters(), average.parameters(), strict=True):
        slope = start.grad + (0.1 if start.dim() > 1 else 0) * start  # decay on kernels only
        expected = start - 0.1 * 1.9 * slope  # Nesterov's first step is (1 + momentum) times the plain one
        torch.testing.assert_close(now, expected, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(mean, 0.7 * start + 0.3 * now)
    assert_same(dict(before.named_buffers()), dict(average.named_buffers()))  # not averaged


def test_the_rate_is_a_cosine_over_seven_sixteenths(problem, monkeypatch):
    seen, step = [], SGD.step

    def spy(self):
        seen.append([group["lr"] for group in self.param_groups])
        step(self)

    monkeypatch.setattr(SGD, "step", spy)
    trained(problem)
    for k, rates in enumerate(seen):
        assert rates == pytest.approx([0.1 * math.cos(7 * math.pi * k / (16 * 12))] * 2)
    assert len(seen) == 12


@pytest.mark.parametrize("ramp", [False, True])
def test_the_running_average_step_by_step(problem, ramp):
    settings = replace(SMALL, epoch=1, ema=0.6, ema_ramp=ramp)
    weights = []
    keep = lambda state: weights.append({k: v.clone() for k, v in state["net"].items()})  # noqa: E731
    net, average = trained(problem, settings, save=keep, save_every=1)
    weights.append(net.state_dict())
    expected = {name: value.clone() for name, value in problem[0].named_parameters()}
    for k, now in enumerate(weights):
        decay = min(0.6, (1 + k) / (10 + k)) if ramp else 0.6
        expected = {name: decay * value + (1 - decay) * now[name] for name, value in expected.items()}
    for name, value in average.named_parameters():
        torch.testing.assert_close(value, expected[name])
        assert not value.requires_grad
    assert not average.training


def test_orders_are_passes_and_few_labels_are_repeated():
    order = _Order(10, 0, 0, "pool")
    sequence = torch.cat([order.batch(step, 4) for step in range(10)])  # four passes, batches across their ends
    for part in sequence.split(10):
        assert sorted(part.tolist()) == list(range(10))
    assert not torch.equal(sequence[:10], sequence[10:20])
    assert torch.equal(_Order(10, 0, 0, "pool").batch(7, 4), sequence[28:32])  # addressed, not advanced
    counts = torch.bincount(_Order(3, 0, 0, "labelled").batch(0, 8))
    assert sorted(counts.tolist()) == [2, 3, 3]


def test_nothing_is_learnt_from_images_the_network_is_unsure_of(problem):
    unsure, _ = trained(problem, replace(SMALL, threshold=1.5))
    ignored, _ = trained(problem, replace(SMALL, lambda_u=0.0))
    for one, other in zip(unsure.parameters(), ignored.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_warm_up_is_a_pass_and_an_interval_at_least():
    s = Settings(batch=10, mu=4, darp_refresh=5)
    assert s.darp_start(1000) == 50  # two passes of 25 steps
    assert replace(s, darp_warm_up=0.0).darp_start(1000) == 30  # a pass and five steps
    assert replace(s, darp_warm_up=3.2).darp_start(1000) == 80
    assert replace(s, darp_warm_up=0.0).darp_start(1001) == 31


def test_darp_refines_what_was_said_when_it_is_time(problem, monkeypatch):
    settings = replace(SMALL, darp=True, darp_refresh=2, darp_warm_up=0.0)
    calls, refine = [], darp.refine

    def spy(p, target, seen, **more):
        calls.append((p.clone(), target, seen, more))
        return refine(p, target, seen, **more)

    monkeypatch.setattr(darp, "refine", spy)
    trained(problem, settings)
    assert settings.darp_start(20) == 5  # 20 + 2 x 8 images, 8 a step
    assert len(calls) == len([5, 7, 9, 11])
    for p, target, seen, more in calls:
        assert seen.all()
        torch.testing.assert_close(p.sum(1), torch.ones(20))
        assert target.tolist() == pytest.approx([20 / 3] * 3)
        assert more == {"alpha": 2.0, "solver": "newton"}
    calls.clear()
    trained(problem, settings, target=torch.tensor([10.0, 6.0, 4.0]))
    assert calls[0][1].tolist() == [10, 6, 4]


def test_refined_labels_take_the_place_of_the_network_s(problem, monkeypatch):
    settings = replace(SMALL, steps=40, darp=True, darp_refresh=2, darp_warm_up=0.0)
    losses = []  # of calling every image class 0
    for values in ([1.0, 0.0, 0.0], [0.34, 0.33, 0.33], [0.0, 1.0, 0.0]):
        monkeypatch.setattr(darp, "refine", lambda p, *_, row=values, **__: torch.tensor(row).repeat(len(p), 1))
        net, _ = trained(problem, settings)
        losses.append(evaluate(net, problem[1], torch.zeros(20).long(), "cross-entropy")[1])
    assert losses == sorted(losses)  # towards class 0, towards none, towards class 1


@pytest.mark.parametrize("change", [{"mode": mode} for mode in Settings.MODES] + [{"darp": True}], ids=str)
def test_resumed_after_any_epoch_gives_the_same_bits(problem, change, tmp_path):
    settings = replace(SMALL, epoch=3, steps=17, darp_refresh=4, darp_warm_up=0.0, **change)
    saved = []

    def save(state):
        path = tmp_path / f"{state['epoch']}.pt"
        Journal(path, "x", torch.device("cpu")).save(state)
        saved.append(path)

    net, average = trained(problem, settings, save=save, save_every=1)
    assert [path.stem for path in saved] == ["1", "2", "3", "4", "5"]  # the sixth epoch, of two steps, is the last
    for path in saved:
        journal = Journal(path, "x", torch.device("cpu"))
        journal.open()
        again, mean = trained(problem, settings, resume=journal.state)
        assert_same(again.state_dict(), net.state_dict())
        assert_same(mean.state_dict(), average.state_dict())


def test_looks_see_the_average_and_are_not_repeated(problem):
    seen, saved = [], []
    look = lambda net, epoch: seen.append((epoch, net.training, copy.deepcopy(net.state_dict())))  # noqa: E731
    more = {"at": [0, 2, 3], "look": look, "save": lambda state: saved.append(copy.deepcopy(state))}
    _, average = trained(problem, **more)
    assert [(epoch, training) for epoch, training, _ in seen] == [(0, False), (2, False), (3, False)]
    assert_same(seen[0][2], problem[0].state_dict())
    assert_same(seen[2][2], average.state_dict())
    assert [state["epoch"] for state in saved] == [0, 2, 3]
    seen.clear()
    trained(problem, resume=saved[1], at=[0, 2, 3], look=look)
    assert [epoch for epoch, _, _ in seen] == [3]
    assert_same(seen[0][2], average.state_dict())


def test_seeds_and_cycles_train_differently_and_the_global_state_is_untouched(problem):
    before = torch.get_rng_state()
    weights = [trained(problem, seed=seed, cycle=cycle)[0].head.weight for seed, cycle in ((0, 0), (1, 0), (0, 1))]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(before, torch.get_rng_state())


def test_images_are_normalised_after_augmentation(problem):
    seen = []
    trained(problem, replace(SMALL, steps=1), normalise=lambda x: seen.append(x) or (x - 0.5) / 0.2)
    assert seen[0].shape == (4 + 8 + 8, 1, 8, 8)  # one joint forward of all views
    assert 0 <= seen[0].min() <= seen[0].max() <= 1


@pytest.mark.parametrize("darp_on", [False, True])
def test_divergence_is_noticed(problem, darp_on):
    with pytest.raises(Diverged) as failure:
        trained(problem, replace(SMALL, lr=1e30, steps=40, darp=darp_on))
    assert (failure.value.cycle, failure.value.epoch) == (1, 0)


def test_unlabelled_images_help():
    """Two classes that differ in where they are brighter, by less than the noise of a pixel; one label each."""
    generator = torch.Generator().manual_seed(1)
    truth = torch.arange(200) % 2
    x = 0.8 * torch.rand(200, 1, 8, 8, generator=generator)
    x[truth == 0, :, :, :4] += 0.2
    x[truth == 1, :, :, 4:] += 0.2
    views = replace(VIEWS, operations=("identity", "contrast", "translate-y"))
    settings = Settings(steps=60, epoch=20, batch=8, mu=4, threshold=0.9, lr=0.05, ema=0.95, ema_ramp=True)
    accuracy = {}
    for change in ({"mode": "supervised-weak"}, {}, {"darp": True}):
        net = nets.build("wrn", (1, 8, 8), 2, 8, torch_stream(0, "init"))
        known = torch.tensor([0, 1])
        average = fit(net, x, known, truth[known], replace(settings, **change), views, 0, 0, shown=False)
        accuracy[str(change)] = evaluate(average, x, truth, "cross-entropy")[0]
    supervised, plain, refined = accuracy.values()
    assert min(plain, refined) > supervised + 0.05


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mode": "mixmatch"}, "found mode 'mixmatch'; allowed: fixmatch, supervised-weak, supervised-strong"),
        (
            {"mu": 0},
            "found mu = 0; allowed: a whole number >= 1; without unlabelled images choose mode supervised-weak",
        ),
        ({"batch": 0}, "found batch = 0"),
        ({"lr": -0.1}, "found lr = -0.1; allowed: a number >= 0"),
        ({"ema": float("nan")}, "found ema = nan"),
        ({"darp_solver": "secant"}, "found darp_solver 'secant'; allowed: newton, released"),
        ({"darp": True, "mode": "supervised-weak"}, "set darp: false"),
    ],
)
def test_bad_settings_are_one_line(change, words):
    with pytest.raises(UserError) as error:
        replace(SMALL, **change)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_no_labels_at_all(problem):
    net, x, labelled, y = problem
    with pytest.raises(UserError, match="no labelled images"):
        fit(net, x, labelled[:0], y[:0], SMALL, VIEWS, 0, 0)


def test_a_target_that_does_not_sum_up_is_refused_before_training(problem):
    with pytest.raises(UserError, match="sum to 3, but there are 20 rows"):
        trained(problem, replace(SMALL, darp=True), target=torch.ones(3))


def test_a_training_too_short_for_darp_is_refused(problem):
    with pytest.raises(UserError, match=r"12 steps end before DARP begins, .* at step 13; set darp: false"):
        trained(problem, replace(SMALL, darp=True))
