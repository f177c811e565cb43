"""Bounds of the early-time slides, against slow references: kernel, concentration, Jacobian, closeness."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from bench.studies.theory.experiments import (
    _early,
    early_time_closeness,
    early_time_concentration,
    early_time_jacobian,
    early_time_kernel,
)
from bench.studies.theory.task import Task

CPU = torch.device("cpu")


def drawn(n: int = 9, d: int = 5, m: int = 6, activation: str = "erf", seed: int = 0):
    draw = np.random.default_rng(seed)
    x = _early.tensor(_early.inputs("gaussian", n, d, draw), CPU)
    return x, _early.symmetric(m, d, activation, draw, CPU)


def whole(net: _early.Net, x: torch.Tensor) -> torch.Tensor:
    """The Jacobian in W and then v, (n, m d + m), by autograd."""
    w, v = net.w.clone().requires_grad_(), net.v.clone().requires_grad_()
    f = _early.Net(w, v, net.activation)(x)
    rows = [torch.autograd.grad(each, (w, v), retain_graph=True) for each in f]
    return torch.stack([torch.cat([a.ravel(), b]) for a, b in rows])


def test_first_kernel_is_the_gram_matrix_of_the_jacobian():
    x, net = drawn()
    jacobian = whole(net, x)[:, : net.w.numel()]
    torch.testing.assert_close(early_time_kernel.first_kernel(net, x), jacobian @ jacobian.T)


def test_expected_kernel_is_that_of_many_neurons():
    x, _ = drawn()
    net = _early.symmetric(400_000, 5, "erf", np.random.default_rng(1), CPU)
    torch.testing.assert_close(early_time_kernel.first_kernel(net, x), early_time_kernel.expected(x), atol=0.02, rtol=0)


def test_expected_kernel_of_a_zero_vector_and_of_a_repeated_point():
    x = torch.tensor([[0.0, 0.0], [1.0, -1.0], [1.0, -1.0]], dtype=torch.float64)
    theta = early_time_kernel.expected(x)
    assert theta[0].tolist() == [0, 0, 0]
    assert theta[1, 1] == theta[1, 2] == pytest.approx(4 / math.pi / math.sqrt(5))  # q = s = 1: sqrt(9 - 4)


@given(some.integers(1, 8), some.integers(0, 5))
def test_norm_is_the_largest_singular_value(n, seed):
    matrix = torch.from_numpy(np.random.default_rng(seed).normal(size=(n, n)))
    assert early_time_kernel.norm(matrix) == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-6)
    assert early_time_kernel.norm(torch.zeros_like(matrix)) == 0


def test_kernel_of_a_cell():
    for setting in early_time_kernel.SETTINGS:
        task = Task(setting, {"dimensions": [8], "factor": 4, "alpha": 0.2}, 0, CPU)
        (row,) = early_time_kernel.measure(task, {"d": 8})
        assert set(row) | {"d"} == set(early_time_kernel.COLUMNS)
        assert row["distance"] <= row["concentration"] + row["approximation"] + 1e-9  # the triangle


def test_concentration_by_loops(monkeypatch):
    monkeypatch.setattr(early_time_concentration, "ROWS", 4)
    x, _ = drawn(n=11)
    size = math.sqrt(math.log(11) / 5)
    found = early_time_concentration.quotients(x)
    assert found["norms"] == pytest.approx(max(abs(float(p @ p) / 5 - 1) for p in x) / size)
    products = [abs(float(x[i] @ x[j])) / 5 for i in range(11) for j in range(11) if i != j]
    assert found["products"] == pytest.approx(max(products) / size)
    assert found["top"] == pytest.approx(float(torch.linalg.eigvalsh(x @ x.T)[-1]) / 11)


def test_concentration_of_one_point_of_signs_and_of_zeros():
    signs = torch.tensor([[1.0, -1.0, 1.0]], dtype=torch.float64)
    assert early_time_concentration.quotients(signs) == pytest.approx({"norms": 0, "products": 0, "top": 3})
    zeros = early_time_concentration.quotients(torch.zeros(3, 2, dtype=torch.float64))
    assert zeros["products"] == zeros["top"] == 0
    assert zeros["norms"] == pytest.approx(1 / math.sqrt(math.log(3) / 2))


@pytest.mark.parametrize("activation", early_time_jacobian.SETTINGS)
def test_norm_of_the_change_of_the_jacobian(activation):
    x, net = drawn(activation=activation)
    other = _early.Net(net.w + 0.7, net.v, net.activation)
    change = (whole(other, x) - whole(net, x))[:, : net.w.numel()]
    slow = float(torch.linalg.matrix_norm(change, 2))
    assert early_time_jacobian.norm_of_change(net, other, x) == pytest.approx(slow, rel=1e-6)


@given(some.integers(0, 30), some.floats(1e-3, 30), some.sampled_from(["erf", "tanh"]))
def test_no_move_beats_the_constant_of_the_proof(seed, length, activation):
    x, net = drawn(activation=activation, seed=seed)
    way = torch.from_numpy(np.random.default_rng(seed + 100).normal(size=net.w.shape))
    moved = _early.Net(net.w + length * way, net.v, net.activation)
    found = early_time_jacobian.quotients(net, moved, x)
    assert 0 < found["proof"] <= 1
    assert found["quotient"] <= found["spectral"] * (1 + 1e-9)


def test_weights_that_do_not_move():
    for activation in ("erf", "relu"):
        x, net = drawn(activation=activation)
        assert early_time_jacobian.quotients(net, net, x)["quotient"] == 0


def test_directions_have_length_one():
    x, net = drawn()
    task = Task("erf", {}, 0, CPU)
    for direction in early_time_jacobian.DIRECTIONS:
        assert float(early_time_jacobian.towards(direction, net, x, task).norm()) == pytest.approx(1)


def test_jacobian_of_a_cell():
    sizes = {"dimensions": [4], "factor": 4, "alpha": 0.2, "radii": [0.1, 1]}
    rows = early_time_jacobian.measure(Task("relu", sizes, 0, CPU), {"d": 4})
    assert len(rows) == 6
    assert set(rows[0]) | {"d"} == set(early_time_jacobian.COLUMNS)
    assert rows[0]["moved"] == pytest.approx(0.1 * math.sqrt(4 * math.log(4)))


@pytest.mark.parametrize("layers", early_time_closeness.SETTINGS)
def test_a_step_is_exactly_what_the_line_integral_says(layers):
    """u(t + 1) - u(t) = -eta / n J(theta(t) -> theta(t + 1)) J(theta(t))^T (u(t) - y)."""
    x, net = drawn()
    y, eta = torch.ones(9, dtype=torch.float64), 0.8
    (now, u), (then, after) = _early.descend(net, x, y, eta, layers, 1)
    kernel = early_time_closeness.change(now, then, x, layers, nodes=8)
    torch.testing.assert_close(after - u, -eta / 9 * kernel @ (u - y), atol=1e-10, rtol=0)
    jacobian = whole(net, x)
    trained = {"first": slice(0, 30), "second": slice(30, 36), "both": slice(0, 36)}[layers]
    same = early_time_closeness.change(net, net, x, layers)
    torch.testing.assert_close(same, jacobian[:, trained] @ jacobian[:, trained].T)


def test_a_net_equal_to_its_linear_model_has_no_distance():
    identity = _early.Activation(lambda z: z, torch.ones_like, 0.0)
    x, _ = drawn(d=3)
    y = _early.teacher(x, np.random.default_rng(0))
    net = _early.Net(torch.eye(3, dtype=torch.float64) * math.sqrt(3), torch.zeros(3, dtype=torch.float64), identity)
    rows = early_time_closeness.follow(net, x, y, x / math.sqrt(3), 0.5, "second", 8)
    assert max(row["distance"] for row in rows) < 1e-12
    assert max(row["error"] for row in rows) < 1e-12
    assert max(row["eps"] for row in rows) < 1e-7


def test_closeness_of_a_cell():
    sizes = {"dimensions": [4], "factor": 4, "alpha": 0.2, "rates": [0.25]}
    rows = early_time_closeness.measure(Task("both", sizes, 0, CPU), {"d": 4, "rate": 0.25})
    assert set(rows[0]) | {"d", "rate"} == set(early_time_closeness.COLUMNS)
    assert rows[0]["distance"] < 1e-14
    assert rows[0]["ratio"] == 0
    assert all(0 < row["ratio"] <= 1 and row["error"] < 1e-12 and row["growth"] <= 1 for row in rows[1:])
