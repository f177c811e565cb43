"""What the look-ahead strategies choose, against slow references; and what a run of them records."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from speeds import some

from bench import nets, strategies
from bench.core import registry
from bench.core.errors import UserError
from bench.core.journal import Journal
from bench.core.seeds import stream, torch_stream
from bench.kernels import infinite
from bench.learn import data
from bench.learn.probability import simplex
from bench.learn.train import Recipe, fit, predict
from bench.strategies import Query, naive, select
from bench.studies.lookahead import Cell
from bench.studies.lookahead import run as lookahead

LABELLED, CANDIDATES, OUTPUTS = 8, 12, 3
RECIPE = Recipe("mse", "constant", False, 0.2, None, 0.9, 1e-3, epochs=3, batch=32, augment="none")
LABELS = torch.arange(CANDIDATES) % OUTPUTS


@pytest.fixture(scope="module")
def query():
    """A net with batch normalisation that does not fit its labels yet, so that the readings of (2.13) differ."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(LABELLED + CANDIDATES, 1, 6, 6, generator=generator)
    y = torch.arange(LABELLED) % OUTPUTS
    net = nets.build("wrn", (1, 6, 6), OUTPUTS, 4, torch_stream(0, "init"))
    fit(net, x[:LABELLED], y, RECIPE, 0, 0, shown=False)
    return Query(net, x[:LABELLED], y, x[LABELLED:], RECIPE, lambda i: int(LABELS[i]))


def jacobian(net, x):
    """df/dw of every output, (N, O, P), float64, by torch.func."""
    net = copy.deepcopy(net).double().eval()
    weights, buffers = dict(net.named_parameters()), dict(net.named_buffers())

    def outputs(weights):
        return torch.func.functional_call(net, (weights, buffers), (x.double(),))

    return torch.cat([part.flatten(2) for part in torch.func.jacrev(outputs)(weights).values()], 2).detach()


def tangent_kernel(query, kind):
    """Theta on labelled images and candidates as (N, O, N, O); a scalar kernel is the same for every output."""
    j = jacobian(query.net, torch.cat([query.labelled_images, query.candidates]))
    if kind == "full":
        return torch.einsum("nop,mqp->nomq", j, j)
    rows = j[:, 0] if kind == "first" else j.sum(1) / OUTPUTS**0.5  # (N, P)
    return torch.einsum("nm,oq->nomq", rows @ rows.T, torch.eye(OUTPUTS, dtype=torch.double))


def regression(theta, f, known, targets):
    """f + Theta(., D) Theta(D, D)^-1 (Y - f(D)) everywhere, D the points `known`, solved from scratch (2.11)."""
    n = len(f) * OUTPUTS
    d = [i * OUTPUTS + o for i in known for o in range(OUTPUTS)]
    flat = theta.reshape(n, n)
    weights = torch.linalg.solve(flat[d][:, d], (targets - f[known]).flatten())
    return f + (flat[:, d] @ weights).view_as(f)


def one_hot(labels):
    return F.one_hot(torch.as_tensor(labels), OUTPUTS).double()


def outputs_of(query):
    return predict(copy.deepcopy(query.net).double(), torch.cat([query.labelled_images, query.candidates]).double())


def brute_scores(theta, f, model, known, targets, objective, reference):
    """One regression per candidate and class; `model` (N, O) gives pseudo-labels and probabilities."""
    u = slice(LABELLED, None)
    scores = []
    for i in range(LABELLED, LABELLED + CANDIDATES):
        score = 0.0
        p = one_hot(model[i].argmax()) if objective in ("mlmoc", "flips") else simplex(model[i : i + 1])[0]
        for c in range(OUTPUTS):
            if p[c] > 0 and i not in known:
                after = regression(theta, f, [*known, i], torch.cat([targets, one_hot([c])]))[u]
                q = simplex(after)
                score += p[c].item() * {
                    "mlmoc": (after - reference[u]).norm(dim=1).sum(),
                    "emoc": (after - reference[u]).norm(dim=1).sum(),
                    "flips": (after.argmax(1) != reference[u].argmax(1)).double().sum(),
                    "eer": -torch.special.entr(q).sum(),
                    "eer-max": -(1 - q.amax(1)).sum(),
                }[objective].item()  # fmt: skip
        scores.append(score)
    return np.array(scores)


def assert_best_first(order, scores):
    """`order` lists all candidates by falling score, whatever it does with ties."""
    assert sorted(order) == list(range(len(scores)))
    assert np.ptp(scores) > 0
    assert (np.diff(scores[order]) <= 1e-6 * np.abs(scores).max()).all()


OBJECTIVES = [
    *((objective, "network") for objective in ("mlmoc", "flips", "emoc", "eer", "eer-max")),
    *((objective, "linear") for objective in ("mlmoc", "flips", "emoc")),
]


@some(
    "kernel, objective, reference, solve",
    [
        (kernel, *pair, solve)
        for kernel in ("pseudo", "first", "full")
        for pair in OBJECTIVES
        for solve in ("posterior", "resolve")
    ],
    daily=4,
    always=[("pseudo", *pair, "posterior") for pair in OBJECTIVES],
)
def test_ntk_ranks_as_one_regression_per_candidate_does(query, kernel, objective, reference, solve):
    theta, f = tangent_kernel(query, kernel), outputs_of(query)
    known, targets = list(range(LABELLED)), one_hot(query.labelled_labels)
    f_lin = regression(theta, f, known, targets)
    assert (f_lin - f).abs().max() > 0.01
    scores = brute_scores(theta, f, f, known, targets, objective, f if reference == "network" else f_lin)
    spec = f"ntk+kernel={kernel}+objective={objective}+reference={reference}+solve={solve}"
    order = select(spec, query, CANDIDATES, stream(0, "query"))
    assert_best_first(order, scores)


@pytest.mark.parametrize("objective", ["mlmoc", "eer"])
@pytest.mark.parametrize("kernel", ["pseudo", "full"])
def test_sequential_queries_are_regressions_from_scratch_with_true_labels(query, kernel, objective):
    theta, f = tangent_kernel(query, kernel), outputs_of(query)
    known, targets = list(range(LABELLED)), one_hot(query.labelled_labels)
    bought = []
    for _ in range(4):
        f_lin = regression(theta, f, known, targets)
        scores = brute_scores(theta, f, f_lin, known, targets, objective, f_lin)
        left = [i for i in range(CANDIDATES) if i not in bought]
        bought.append(max(left, key=lambda i: scores[i]))
        known, targets = [*known, LABELLED + bought[-1]], torch.cat([targets, one_hot([LABELS[bought[-1]]])])
    spec = f"ntk+kernel={kernel}+objective={objective}+query=sequential"
    assert select(spec, query, 4, stream(0, "query")).tolist() == bought


def test_sequential_queries_listen_to_the_labels(query):
    liar = replace(query, oracle=lambda i: int((LABELS[i] + 1) % OUTPUTS))
    truth, lies = (select("ntk+query=sequential", q, CANDIDATES, stream(0, "query")) for q in (query, liar))
    assert truth[0] == lies[0]
    assert truth.tolist() != lies.tolist()


def test_combinations_that_cannot_be_say_what_to_type(query):
    with pytest.raises(UserError, match="leave it or query=sequential out"):
        select("ntk+solve=resolve+query=sequential", query, 2, stream(0))
    with pytest.raises(UserError, match="must come with an oracle"):
        select("ntk+query=sequential", replace(query, oracle=None), 2, stream(0))
    with pytest.raises(UserError, match="must come with the recipe"):
        select("naive", replace(query, recipe=None), 2, stream(0))


def test_an_audit_notes_scores_beside_retraining_s_and_buys_the_same(query, monkeypatch):
    monkeypatch.setattr("bench.strategies.ntk.AUDITED", 3)
    plain = select("ntk", replace(query, notes={}), 4, stream(0, "query"))
    audited = replace(query, notes={})
    assert select("ntk+audit=sample", audited, 4, stream(0, "query")).tolist() == plain.tolist()
    follow = stream(0, "query")
    follow.random(len(query.candidates))  # ties
    sample = follow.permutation(len(query.candidates))[:3]
    f, known = outputs_of(query), list(range(LABELLED))
    theta, targets = tangent_kernel(query, "pseudo"), one_hot(query.labelled_labels)
    scores = brute_scores(theta, f, f, known, targets, "mlmoc", f)
    np.testing.assert_allclose(audited.notes["audit_foretold"], scores[sample], rtol=1e-6)
    retrained, again = (
        naive.scores(replace(query, notes={}), sample, naive.OPTIONS["epochs"], int(follow.integers(2**63))).tolist()
        for _ in range(2)
    )
    assert audited.notes["audit_retrained"] == retrained
    assert audited.notes["audit_again"] == again
    assert retrained != again


def test_notes_of_the_kernel(query):
    asked = replace(query, notes={})
    select("ntk", asked, 2, stream(0))
    assert asked.notes["condition"] > 1
    assert 0 < asked.notes["jitter"] < 1e-6
    assert "warning" not in asked.notes


def test_one_step_to_first_order(query):
    f = outputs_of(query)[LABELLED:]
    residual = one_hot(f.argmax(1)) - f
    j = jacobian(query.net, query.candidates)
    scalar = j.sum(1) @ j.sum(1).T / OUTPUTS
    scores = [residual[i].norm() * sum(abs(scalar[x, i]) for x in range(CANDIDATES)) for i in range(CANDIDATES)]
    assert_best_first(select("one-step", query, CANDIDATES, stream(0)), np.array(scores))


def test_a_true_step_is_small_enough_to_follow_the_full_kernel(query):
    f = outputs_of(query)[LABELLED:]
    residual = one_hot(f.argmax(1)) - f
    j = jacobian(query.net, query.candidates)
    change = torch.einsum("xop,iqp,iq->ixo", j, j, residual)  # Theta(x, x') r'
    scores = change.norm(dim=2).sum(1)
    module, _ = registry.load("strategies", "one-step")
    net = copy.deepcopy(query.net).double()
    stepped = module._stepped(net, query.candidates.double(), f, residual)
    assert torch.allclose(stepped / stepped.sum(), scores / scores.sum(), rtol=0.02)
    assert_best_first(select("one-step+step=true", query, CANDIDATES, stream(0)), stepped.numpy())


@pytest.mark.parametrize("prior", ["network", "zero"])
@pytest.mark.parametrize("kernel", ["fcn", "convnet"])
def test_infinite_is_the_same_with_another_kernel(query, kernel, prior):
    x = torch.cat([query.labelled_images, query.candidates])
    ntk = getattr(infinite, kernel)(x).ntk
    theta = torch.einsum("nm,oq->nomq", ntk, torch.eye(OUTPUTS, dtype=torch.double))
    f = predict(query.net, x).double()
    mean = f if prior == "network" else torch.zeros_like(f)
    known, targets = list(range(LABELLED)), one_hot(query.labelled_labels)
    reference = f if prior == "network" else regression(theta, mean, known, targets)
    scores = brute_scores(theta, mean, f, known, targets, "mlmoc", reference)
    assert_best_first(select(f"infinite+kernel={kernel}+prior={prior}", query, CANDIDATES, stream(0)), scores)


def test_gp_is_kernel_regression_and_looks_ahead_with_it(query):
    net = strategies.network("gp", query.net, torch_stream(0, "init"))
    saving = {"resume": None, "save": None, "save_every": 10}
    strategies.fit("gp", net, query.labelled_images, query.labelled_labels, RECIPE, 0, 0, **saving)
    x = torch.cat([query.labelled_images, query.candidates])
    theta = torch.einsum("nm,oq->nomq", infinite.fcn(x).ntk, torch.eye(OUTPUTS, dtype=torch.double))
    zero, known, targets = torch.zeros(len(x), OUTPUTS).double(), list(range(LABELLED)), one_hot(query.labelled_labels)
    mean = regression(theta, zero, known, targets)
    assert torch.allclose(predict(net, x), mean, atol=1e-6)
    assert torch.allclose(predict(net, query.labelled_images), targets, atol=1e-6)
    scores = brute_scores(theta, zero, mean, known, targets, "mlmoc", mean)
    assert_best_first(select("gp", replace(query, net=net), CANDIDATES, stream(0)), scores)
    assert not list(net.state_dict())  # nothing of it has to survive a kill


def test_naive_retrains_each_candidate_from_the_same_weights(query):
    """All labels in one batch: 3 steps of gradient descent with momentum, by hand."""
    f = predict(query.net, query.candidates)
    rate = RECIPE.lr / 10
    by_hand = []
    for i in range(CANDIDATES):
        net = copy.deepcopy(query.net).train()
        x = torch.cat([query.labelled_images, query.candidates[i : i + 1]])
        y = torch.cat([query.labelled_labels, f[i].argmax()[None]])
        speed = [torch.zeros_like(w) for w in net.parameters()]
        for _ in range(3):
            loss = ((net(x) - one_hot(y).float()) ** 2).mean()
            for v, w, g in zip(speed, net.parameters(), torch.autograd.grad(loss, list(net.parameters())), strict=True):
                v.mul_(0.9).add_(g + RECIPE.weight_decay * w.detach())
                w.data -= rate * v
        by_hand.append((predict(net, query.candidates) - f).norm(dim=1).sum().item())
    scores = naive.scores(query, range(CANDIDATES), 3, seed=0)
    assert scores.tolist() == pytest.approx(by_hand, rel=1e-3)
    assert scores.tolist() == naive.scores(query, range(CANDIDATES), 3, seed=0).tolist()  # nothing is left behind
    assert_best_first(select("naive+epochs=3", query, CANDIDATES, stream(0)), scores.numpy())


def test_naive_timed_on_a_sample_buys_at_random_and_says_so(query):
    candidates = torch.rand(20, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    asked = replace(query, candidates=candidates, notes={})
    chosen = {tuple(select("naive+epochs=1+timed=sample", asked, 3, stream(seed))) for seed in range(6)}
    assert len(chosen) == 6
    assert asked.notes == {"scored": naive.SAMPLE, "candidates": 20}
    few = replace(query, candidates=candidates[:3], notes={})
    select("naive+epochs=1+timed=sample", few, 3, stream(0))
    assert few.notes["scored"] == 3
    assert naive.TIMING_ONLY.items() <= registry.parse("strategies", "naive+timed=sample")[1].items()


@pytest.mark.parametrize("more", ["query=sequential", "objective=eer", "objective=eer-max"])
def test_a_name_whose_option_says_nothing_is_refused(query, more):
    with pytest.raises(UserError, match="reference=linear says nothing new"):
        select(f"ntk+{more}+reference=linear", query, 1, stream(0))


def test_a_retraining_that_diverges_is_told_from_one_that_does_not(query):
    wild = replace(query, recipe=replace(RECIPE, lr=1e30))
    with pytest.raises(UserError, match="retraining with candidate 0 diverged at learning rate 1e\\+29"):
        select("naive+epochs=3", wild, 1, stream(0))


RUNS = ["ntk", "ntk+kernel=full", "ntk+query=sequential", "one-step", "infinite", "gp", "gp-random"]
RUNS += ["naive+epochs=1+timed=sample"]


def short(settings):
    return settings | {"protocol": settings["protocol"] | {"subset": 15, "query": 3}}


def run(strategy, settings, root, path):
    journal = Journal(path, "test", torch.device("cpu"))
    journal.open()
    cell = Cell("digits", "wrn", 8, "l2", strategy, 0)
    return lookahead.run(cell, settings, data.load("digits", root), torch.device("cpu"), journal)


@some("strategy", RUNS, always=["ntk+query=sequential", "gp"])
def test_a_run_stopped_while_querying_and_continued_records_the_same(strategy, settings, root, tmp_path, monkeypatch):
    settings = short(settings)
    unbroken = run(strategy, settings, root, tmp_path / "a.pt")
    assert [done["labelled"] for done in unbroken["cycles"]] == [12, 15, 18]
    original, calls = strategies.select, []

    def stopped(*words):
        calls.append(words)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*words)

    monkeypatch.setattr(strategies, "select", stopped)
    with pytest.raises(KeyboardInterrupt):
        run(strategy, settings, root, tmp_path / "b.pt")
    again = run(strategy, settings, root, tmp_path / "b.pt")
    assert len(calls) == 3  # the first cycle was not queried again
    assert json.dumps(again) == json.dumps(unbroken)


def test_a_query_of_hours_continues_where_it_was_killed(settings, root, tmp_path, monkeypatch):
    """Neither the training before it nor the candidates scored so far are done again."""
    settings = short(settings)
    strategy = "naive+epochs=1"
    unbroken = run(strategy, settings, root, tmp_path / "a.pt")
    monkeypatch.setattr(naive, "SAVE_EVERY", 4)
    retrain, trainings = naive.train.fit, []

    def killed(*words, **more):
        trainings.append(words)
        if len(trainings) == 11:  # scored 10 of the first query's candidates, saved 8 of them
            raise KeyboardInterrupt
        return retrain(*words, **more)

    monkeypatch.setattr(naive.train, "fit", killed)
    with pytest.raises(KeyboardInterrupt):
        run(strategy, settings, root, tmp_path / "b.pt")
    again = run(strategy, settings, root, tmp_path / "b.pt")
    candidates = settings["protocol"]["subset"]
    assert len(trainings) == 11 + (candidates - 8) + candidates
    assert json.dumps(again) == json.dumps(unbroken)


def test_what_a_strategy_noted_is_in_the_record(settings, root, tmp_path):
    notes = [done["notes"] for done in run("ntk", short(settings), root, tmp_path / "a.pt")["cycles"]]
    assert [set(note) for note in notes] == [{"condition", "jitter"}, {"condition", "jitter"}, set()]


def test_a_gaussian_process_has_no_start_and_shares_its_first_cycle_with_its_baseline(settings, root, tmp_path):
    warm, baseline = (run(s, short(settings), root, tmp_path / f"{s}.pt") for s in ("gp", "gp-random"))
    cold = short(settings) | {"protocol": short(settings)["protocol"] | {"start": "cold"}}
    assert run("gp", cold, root, tmp_path / "cold.pt") == warm
    assert warm["cycles"][0]["test_accuracy"] == baseline["cycles"][0]["test_accuracy"] > 0.3
    assert warm["cycles"][0]["train_loss"] < 1e-12
    assert warm["parameters"] == 0


@pytest.mark.parametrize("view", ["clean", "augmented"])
def test_strategies_see_augmented_views_of_labelled_images_too(view, settings, root, tmp_path, monkeypatch):
    seen = []

    def look(strategy, query, size, stream):
        seen.append(query)
        return np.arange(size)

    monkeypatch.setattr(strategies, "select", look)
    changed = copy.deepcopy(short(settings))
    changed["protocol"] |= {"view": view, "cycles": 2}
    changed["recipe"] |= {"augment": "flip-crop", "epochs": 1}
    initial = run("random", changed, root, tmp_path / "a.pt")["initial"]
    clean = data.load("digits", root).images("train", np.array(initial))
    assert torch.equal(seen[0].labelled_images, clean) == (view == "clean")
