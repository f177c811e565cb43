"""The smooth linearisation: derivatives and beta, distances against the net itself, directions, and the bound."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.studies.theory.experiments import linearisation_smooth as smooth
from bench.studies.theory.task import Task

NAMES = sorted(smooth.ACTIVATIONS)
TORCH = {
    "erf": torch.erf,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": torch.nn.functional.softplus,
    "gelu": torch.nn.functional.gelu,
}
SIZES = {"widths": [1, 3], "radii": [0.5, 2], "trials": 2, "dimension": 3, "points": 2, "steps": 100}


def net(w: torch.Tensor, outer: torch.Tensor, x: torch.Tensor, name: str) -> torch.Tensor:
    """f at points x (n, d)."""
    return TORCH[name](x @ w.T) @ outer / len(w) ** 0.5


@pytest.mark.parametrize("name", NAMES)
class TestActivation:
    def test_its_derivatives(self, name):
        s, z = smooth.ACTIVATIONS[name], torch.linspace(-6, 6, 201, dtype=torch.float64, requires_grad=True)
        value = TORCH[name](z)
        (slope,) = torch.autograd.grad(value.sum(), z, create_graph=True)
        (curvature,) = torch.autograd.grad(slope.sum(), z)
        at = z.detach().numpy()
        np.testing.assert_allclose(s.value(at), value.detach(), atol=1e-14)
        np.testing.assert_allclose(s.slope(at), slope.detach(), atol=1e-14)
        np.testing.assert_allclose(s.curvature(at), curvature, atol=1e-14)

    def test_beta_is_the_largest_curvature(self, name):
        s = smooth.ACTIVATIONS[name]
        assert np.abs(s.curvature(np.linspace(-8, 8, 400_001))).max() == pytest.approx(s.beta, rel=1e-8)

    def test_distance_is_that_of_the_net(self, name):
        draw = np.random.default_rng(0)
        w, move, x = draw.normal(size=(5, 3)), draw.normal(size=(5, 3)), draw.normal(size=3)
        outer = draw.choice([-1.0, 1.0], size=5)
        w0, away, a, point = (torch.tensor(each) for each in (w, move, outer, x[None]))
        value = net(w0.requires_grad_(), a, point, name)[0]
        change = (torch.autograd.grad(value, w0)[0] * away).sum()
        slow = abs(net(w0 + away, a, point, name)[0] - value - change).item()
        found = smooth.distance(w @ x, move @ x, outer, smooth.ACTIVATIONS[name])
        assert found == pytest.approx(slow, abs=1e-13)

    def test_descent_is_that_of_autograd(self, name):
        draw = np.random.default_rng(1)
        w, outer, x = draw.normal(size=(6, 3)), draw.choice([-1.0, 1.0], size=6), draw.normal(size=(2, 3))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        labels, s = draw.normal(size=2), smooth.ACTIVATIONS[name]
        found = smooth.descent(w, outer, x, labels, s, [0.1], 50)[0.1]

        start, a, points = torch.tensor(w), torch.tensor(outer), torch.tensor(x)
        jacobian = torch.autograd.functional.jacobian(lambda v: net(v, a, points, name), start).flatten(1)
        kernel = jacobian @ jacobian.T
        reach = (torch.tensor(labels) @ torch.linalg.solve(kernel, torch.tensor(labels))).sqrt()
        y = net(start, a, points, name) + torch.tensor(labels) * smooth.BEYOND * 0.1 / reach
        rate, v = smooth.STEP * 2 / torch.linalg.eigvalsh(kernel)[-1], start
        while (v - start).norm() < 0.1:
            before = v
            v = v.detach().requires_grad_()
            v = v - rate * torch.autograd.grad(((net(v, a, points, name) - y) ** 2).sum() / 4, v)[0]
        low, high = 0.0, 1.0
        for _ in range(60):
            half = (low + high) / 2
            low, high = (half, high) if ((before + half * (v - before)) - start).norm() < 0.1 else (low, half)
        slow = ((before + low * (v - before) - start) @ points[0]).detach()
        np.testing.assert_allclose(found, slow, atol=1e-12)

    @settings(deadline=None, max_examples=50)
    @given(st.lists(st.tuples(*[st.floats(-20, 20)] * 2, st.floats(-1, 1)), min_size=1, max_size=6))
    def test_no_move_exceeds_the_bound(self, name, neurons):
        z, delta, outer = np.array(neurons).T
        s = smooth.ACTIVATIONS[name]
        most = smooth.bound(len(z), np.linalg.norm(delta), s.beta)
        assert smooth.distance(z, delta, outer, s) <= most * (1 + 1e-9) + 1e-12


class TestDirections:
    def test_the_worst_of_one_neuron_is_known(self):
        """At z = 0 softplus gains log cosh(B / 2) from either move."""
        found = smooth.adversarial(np.zeros(1), np.ones(1), 2.0, smooth.ACTIVATIONS["softplus"])
        assert found == pytest.approx(np.log(np.cosh(1)))

    def test_the_worst_is_at_least_any_equal_move_of_one_sign(self):
        draw, s = np.random.default_rng(2), smooth.ACTIVATIONS["tanh"]
        z, outer = draw.normal(size=64), draw.choice([-1.0, 1.0], size=64)
        worst = smooth.adversarial(z, outer, 1.0, s)
        assert worst >= smooth.distance(z, smooth.equal(z, outer, 1.0, s), outer, s)
        assert worst <= smooth.bound(64, 1.0, s.beta)

    def test_equal_moves_have_the_norm(self):
        z = np.random.default_rng(3).normal(size=9)
        assert np.linalg.norm(smooth.equal(z, np.ones(9), 2.0, smooth.ACTIVATIONS["erf"])) == pytest.approx(2)

    @given(st.floats(0, 0.99), st.floats(1, 5))
    def test_crossing_has_the_norm(self, inner, outer):
        at = smooth.crossing(np.array([[inner, 0.0]]), np.array([[0.0, outer]]), 1.0)
        assert np.linalg.norm(at) == pytest.approx(1)

    def test_a_move_of_nothing_is_no_distance(self):
        s = smooth.ACTIVATIONS["gelu"]
        assert smooth.distance(np.zeros(3), np.zeros(3), np.ones(3), s) == 0


@pytest.mark.parametrize("change", [{}, {"dimension": 1}, {"dimension": 1, "points": 3}, {"steps": 1}])
def test_rows_of_the_smallest_sizes(change):
    """Width 1, one coordinate, repeated points, a path that ends too early: rows that keep the bound."""
    task = Task("erf", SIZES | change, 0, torch.device("cpu"))
    for part in smooth.parts(task.sizes):
        rows = smooth.measure(task, part)
        assert rows == smooth.measure(task, part)  # a part draws from its own streams
        assert {row["direction"] for row in rows} >= {"random", "equal", "adversarial"}
        assert all(set(smooth.COLUMNS) == {*row, *part} for row in rows)
        assert all(0 <= row["ratio"] <= 1 for row in rows)
