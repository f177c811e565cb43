"""Remainders of a gradient step against slow references, and the proof's bound by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from bench.studies.theory.experiments import _two_layers, npc_lemmas
from bench.studies.theory.task import Task

CPU = torch.device("cpu")


def example(activation: str = "erf", m: int = 30) -> tuple:
    draw = np.random.default_rng(0)
    net = _two_layers.draw(m, 3, activation, torch.Generator().manual_seed(0), CPU)
    return net, torch.from_numpy(draw.normal(size=(4, 3))), torch.from_numpy(draw.normal(size=4))


def test_xi_against_scipy_and_autograd():
    net, x, y = example()
    loss_at = lambda w, a: (_two_layers.Net(w, a, "erf")(x) - y).square().sum() / 2  # noqa: E731
    gradient = torch.func.grad(loss_at, (0, 1))
    first = gradient(net.w, net.a)
    dot = lambda p, q: float(sum((a * b).sum() for a, b in zip(p, q, strict=True)))  # noqa: E731
    eta = 0.4 / float(torch.linalg.eigvalsh(net.kernel(x, x))[-1])
    inner = lambda g: dot(first, first) - dot(first, gradient(net.w - g * first[0], net.a - g * first[1]))  # noqa: E731
    expected = integrate.quad(inner, 0, eta, epsabs=1e-13)[0] / float(loss_at(net.w, net.a))
    found = npc_lemmas.remainders(net, x, y, 0.4)
    assert found["xi"] == pytest.approx(expected, rel=1e-9)
    after = loss_at(net.w - eta * first[0], net.a - eta * first[1])
    moved = _two_layers.Net(net.w - eta * first[0], net.a - eta * first[1], "erf")(x) - net(x)
    assert found["eps"] == pytest.approx(float(moved.square().sum() / 2 / loss_at(net.w, net.a)), rel=1e-9)
    least = float(torch.linalg.eigvalsh(net.kernel(x, x))[0])
    right = (1 - eta * least) + found["xi"] + found["eps"]
    assert found["lemma"] == pytest.approx(float(after / loss_at(net.w, net.a)) / right, rel=1e-9)
    assert found["identity"] < 1e-12


@pytest.mark.parametrize("activation", ["erf", "relu"])
def test_outputs_move_by_the_kernel_and_not_by_its_trace(activation):
    found = npc_lemmas.remainders(*example(activation), 0.1)
    assert found["derivative_error"] < 1e-12
    assert found["trace_error"] > 0.1


def test_one_point_has_a_trace_that_is_its_kernel():
    """n = 1: -e Tr(K) is -K e, so what is left of the slip is the sign, an error of 2."""
    net, x, y = example()
    assert npc_lemmas.remainders(net, x[:1], y[:1], 0.1)["trace_error"] == pytest.approx(2)


def test_the_proof_by_hand():
    """beta = 1, M = 2, mu = 0, alpha = sqrt 2: b = 1, c = 0, c' = 2, a' = 2 + 4, c'' = 4."""
    assert npc_lemmas.proof(0.1, 0.0, 1.0, math.sqrt(2)) == pytest.approx(6 * 0.005 + 4 * 0.1)


@given(st.floats(0.01, 1), st.floats(1, 100), st.floats(1e-3, 10))
def test_the_proof_is_of_order_eta_unless_alpha_is_zero(least, most, alpha):
    small, smaller = (npc_lemmas.proof(eta, least, most, alpha) for eta in (1e-12, 1e-13))
    assert small / smaller == pytest.approx(10, rel=1e-4)
    small, smaller = (npc_lemmas.proof(eta, least, most, 0.0) for eta in (1e-6, 1e-7))
    assert small / smaller == pytest.approx(100, rel=1e-9)


def test_rows_of_width_one_and_one_dimension():
    sizes = {"points": 2, "d": 1, "trials": 1, "etas": [0.01, 0.1]}
    rows = npc_lemmas.measure(Task("erf", sizes, 0, CPU), {"m": 1})
    assert [set(row) | {"m"} for row in rows] == [set(npc_lemmas.COLUMNS)] * 2
