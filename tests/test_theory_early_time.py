"""Two-layer nets, their linear models and the descents of both, against slow references; experiments with them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from bench.core.errors import UserError
from bench.studies.theory.experiments import _early, early_time, early_time_dimension, early_time_norm
from bench.studies.theory.task import Task

CPU = torch.device("cpu")


def drawn(n: int = 30, d: int = 6, m: int = 8, activation: str = "erf", seed: int = 0):
    draw = np.random.default_rng(seed)
    x = _early.tensor(_early.inputs("gaussian", n, d, draw), CPU)
    return x, _early.teacher(x, draw), _early.symmetric(m, d, activation, draw, CPU)


@pytest.mark.parametrize(
    ("activation", "zeta", "theta0", "theta1", "theta2"),
    [
        ("erf", 2 / math.sqrt(3 * math.pi), 0, 0, 0),
        ("tanh", 0.60571, 0, 0, 0),
        ("relu", 0.5, 1 / math.sqrt(2 * math.pi), 1 / math.sqrt(2 * math.pi), 0),
        ("softplus", 0.5, 0.80606, 0.20662, 0.07211),
        ("gelu", 0.5, 1 / math.sqrt(4 * math.pi), 0.42314, 0.03526),
    ],
)
def test_constants_are_those_of_the_closed_forms(activation, zeta, theta0, theta1, theta2):
    assert _early.constants(activation) == pytest.approx((zeta, theta0, theta1, theta2), abs=5e-6)


@pytest.mark.parametrize("activation", _early.ACTIVATIONS)
def test_constants_against_a_million_draws(activation):
    g = torch.from_numpy(np.random.default_rng(0).normal(size=1_000_000))
    phi, slope, _ = _early.ACTIVATIONS[activation]
    values = (slope(g), phi(g), g * slope(g), (g**3 / 2 - g) * slope(g))
    for exact, value in zip(_early.constants(activation), values, strict=True):
        assert exact == pytest.approx(float(value.mean()), abs=5 * float(value.std()) / 1000)


@pytest.mark.parametrize("activation", _early.ACTIVATIONS)
def test_slopes_and_bends_are_derivatives(activation):
    phi, slope, bend = _early.ACTIVATIONS[activation]
    z = torch.linspace(-4, 4, 2001, dtype=torch.float64, requires_grad=True)
    (by_autograd,) = torch.autograd.grad(phi(z).sum(), z)
    away = z.detach().abs() > 1e-9  # of ReLU's kink
    torch.testing.assert_close(slope(z.detach())[away], by_autograd[away])
    if math.isfinite(bend):
        steepest = float((slope(z).diff() / z.diff()).detach().abs().max())
        assert 0.99 * bend < steepest <= bend + 1e-9
    else:
        assert slope(torch.zeros(1)) == 1  # the slides' convention


@pytest.mark.parametrize("activation", ["erf", "relu", "softplus"])
def test_outputs_gradients_and_jacobian_are_those_of_autograd(activation):
    x, y, net = drawn(activation=activation)
    w, v = net.w.clone().requires_grad_(), (net.v + 0.3).requires_grad_()  # |v| is not 1
    f = torch.stack([sum(v[r] * net.activation.value(w[r] @ p / math.sqrt(6)) for r in range(8)) for p in x]) / 8**0.5
    loss = ((f - y) ** 2).sum() / (2 * len(x))
    ours = _early.Net(w.detach(), v.detach(), net.activation)
    found = ours.gradients(x, y)
    for mine, theirs in zip(found, (f.detach(), *torch.autograd.grad(loss, (w, v), retain_graph=True)), strict=True):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(ours(x), found[0])
    a, h = ours.jacobian(x)
    by_w, by_v = torch.autograd.grad(f[3], (w, v))
    torch.testing.assert_close(a[3][:, None] * x[3] / math.sqrt(8 * 6), by_w)
    torch.testing.assert_close(h[3] / math.sqrt(8), by_v)


def test_points_in_several_parts_give_the_same(monkeypatch):
    x, y, net = drawn()
    whole = net.gradients(x, y)
    monkeypatch.setattr(_early, "ROWS", 7)
    for mine, theirs in zip(net.gradients(x, y), whole, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_symmetric_net_starts_at_zero_and_needs_an_even_width():
    x, _, net = drawn(m=2)
    assert net(x).abs().max() < 1e-15
    for m in (0, 1, 7):
        with pytest.raises(UserError, match="even number of neurons"):
            _early.symmetric(m, 3, "erf", np.random.default_rng(0), CPU)


def test_only_the_layers_named_move():
    x, y, net = drawn()
    for layers, (first, second) in _early.LAYERS.items():
        *_, (last, f) = _early.descend(net, x, y, 0.5, layers, 3)
        assert torch.equal(last.w, net.w) != first
        assert torch.equal(last.v, net.v) != second
        torch.testing.assert_close(f, last(x))


def test_features_are_those_of_the_slides():
    x, of = torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float64), _early.Constants(0.5, 0.4, 0.3, 0.2)
    third = [0.4 + 0.3 * (r - 1) + 0.2 * (r - 1) ** 2 for r in (5 / math.sqrt(2), 0)]
    first = torch.tensor([[1.5, 2.0, 0.6], [0, 0, 0.6]], dtype=torch.float64) / math.sqrt(2)  # nu = 0.3 x 2
    torch.testing.assert_close(_early.features(x, "first", of, spread=2), first)
    second = _early.features(x, "second", of, spread=2)
    torch.testing.assert_close(second[:, 2:], torch.tensor([[0.3, third[0]], [0.3, third[1]]], dtype=torch.float64))
    both = _early.features(x, "both", of, spread=2)
    torch.testing.assert_close(both @ both.T, first @ first.T + second @ second.T)  # kernels add


def test_the_linear_kernel_is_that_of_a_wide_net():
    """Theta_1 and Theta_2 of 100,000 neurons in 100 dimensions, against psi psi^T, to what 1 / d leaves."""
    draw = np.random.default_rng(0)
    x = _early.tensor(_early.inputs("gaussian", 6, 100, draw), CPU)
    net = _early.symmetric(100_000, 100, "relu", draw, CPU)
    a, h = net.jacobian(x)
    kernels = {"first": (a @ a.T) * (x @ x.T) / 100 / 100_000, "second": h @ h.T / 100_000}
    for layers, kernel in kernels.items():
        psi = _early.features(x, layers, _early.constants("relu"))
        off = ~torch.eye(6, dtype=torch.bool)  # on the diagonal they differ by a constant
        assert float((kernel - psi @ psi.T)[off].abs().max()) < 0.02


@given(some.integers(1, 5), some.integers(1, 12), some.floats(0.01, 1.9), some.integers(0, 30))
def test_descent_of_the_linear_model_step_by_step(d, n, fraction, steps):
    draw = np.random.default_rng(d + 10 * n)
    psi, y = torch.from_numpy(draw.normal(size=(n, d))), torch.from_numpy(draw.normal(size=n))
    rate, omega = _early.rate_of(psi, fraction), torch.zeros(d, dtype=torch.float64)
    *_, last = _early.descend_linear(psi, y, rate, steps)
    for _ in range(steps):
        omega = omega - rate / n * psi.T @ (psi @ omega - y)
    torch.testing.assert_close(last, omega)
    assert float((psi @ last - y).norm()) <= float(y.norm()) * (1 + 1e-12)


def test_inputs_have_the_covariance_they_should():
    for kind in ("gaussian", "rademacher", "correlated"):
        x = _early.inputs(kind, 40_000, 4, np.random.default_rng(0))
        assert np.abs(x.mean(0)).max() < 0.03
        assert np.cov(x.T) == pytest.approx(np.diag(_early.eigenvalues(kind, 4)), abs=0.04)
        assert _early.eigenvalues(kind, 4).sum() == pytest.approx(4)
        assert _early.eigenvalues(kind, 1) == [1]


def test_all_points_at_zero_have_no_rate():
    with pytest.raises(UserError, match="all inputs are 0"):
        _early.rate_of(_early.features(torch.zeros(3, 2, dtype=torch.float64), "first", _early.constants("erf")), 0.5)


def test_labels_are_signs_also_of_the_zero_vector():
    assert _early.teacher(torch.zeros(3, 2, dtype=torch.float64), np.random.default_rng(0)).tolist() == [1, 1, 1]


def test_a_net_that_is_linear_never_parts():
    """With phi(z) = z and only the second layer trained, on inputs whose random features are the inputs themselves."""
    identity = _early.Activation(lambda z: z, torch.ones_like, 0.0)
    x, y, _ = drawn(40, 3)
    w = torch.eye(3, dtype=torch.float64) * math.sqrt(3)  # W^T W / m = I
    net = _early.Net(w, torch.zeros(3, dtype=torch.float64), identity)
    psi = x / math.sqrt(3)
    found = early_time.compare(net, x, y, psi, 30, 0.5, "second", 20)
    for split in ("train", "test"):
        assert max(row["gap"] for row in found[split]) < 1e-12
        assert max(row["discrepancy"] for row in found[split]) < 1e-24
        assert early_time.parting(found[split]) is None
    assert found["train"][0]["left"] == pytest.approx(1)


def test_parting_is_the_first_time_beyond_a_tenth():
    rows = [{"time": t, "gap": gap} for t, gap in enumerate([0, 0.09, 0.11, 0.05, 0.2])]
    assert early_time.parting(rows) == 2


SIZES = {"d": 5, "train": 60, "test": 20, "width": 8, "rate": 0.25, "time": 5, "points": 6}


def test_early_time_of_a_cell():
    for setting in early_time.SETTINGS:
        task = Task(setting, SIZES, 0, CPU)
        rows = early_time.measure(task, {"d": 5})
        assert rows == early_time.measure(task, {"d": 5})
        assert {row["split"] for row in rows} == {"train", "test"}
        assert set(rows[0]) | {"d"} == set(early_time.COLUMNS)
        assert rows[0]["net"] == rows[0]["linear"] == 0.5
        assert sum(row["last"] for row in rows) == 2


def test_one_dimension_and_repeated_points_are_defined(monkeypatch):
    rows = early_time.measure(Task("both", SIZES | {"d": 1}, 0, CPU), {"d": 1})
    assert all(math.isfinite(row["gap"]) for row in rows)
    monkeypatch.setattr(_early, "inputs", lambda kind, n, d, draw: np.ones((n, d)))
    rows = early_time.measure(Task("first", SIZES, 0, CPU), {"d": 5})  # the optimum is exact there
    assert all(math.isfinite(row["net"]) for row in rows)


def test_dimension_of_a_cell_is_the_worst_until_t():
    sizes = {"dimensions": [4], "factor": 4, "alpha": 0.2, "rate": 0.25, "test": 20}
    (row,) = early_time_dimension.measure(Task("first", sizes, 0, CPU), {"d": 4})
    assert set(row) | {"d"} == set(early_time_dimension.COLUMNS)
    assert row["n"] == row["m"] == 22  # 4 x 4^1.2 = 21.1, made even
    assert row["bound"] == pytest.approx(4**-0.2)
    assert 0 < row["train"] < 1


def test_norm_models_differ_in_the_third_coordinate_only():
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(7, 3)))
    full, constant, without = (early_time_norm.features(x, "second", model) for model in early_time_norm.MODELS)
    assert torch.equal(full[:, :4], without)
    assert torch.equal(constant[:, :4], without)
    torch.testing.assert_close(full[:, 4], x.norm(dim=1) / math.sqrt(3) / math.sqrt(2 * math.pi))  # ReLU: linear in r
    assert torch.unique(constant[:, 4]).tolist() == pytest.approx([1 / math.sqrt(2 * math.pi)])


def test_norm_of_a_cell():
    sizes = {"dimensions": [6], "points": 40, "alpha": 0.2, "rate": 0.25, "rows": 5}
    rows = early_time_norm.measure(Task("both", sizes, 0, CPU), {"d": 6})
    assert set(rows[0]) | {"d"} == set(early_time_norm.COLUMNS)
    worst = {row["model"]: row["times"] for row in rows}
    assert worst["full"] == 1
    assert worst["without"] > 1
