"""Kernel gradient flow: each closed form against a slow reference; nets of finite width against autograd."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from bench.core.errors import UserError
from bench.kernels import infinite
from bench.studies.theory.experiments import _two_layers
from bench.studies.theory.experiments import gradient_flow as flow
from bench.studies.theory.experiments import gradient_flow_width as wide
from bench.studies.theory.task import Task

CPU = torch.device("cpu")


@pytest.fixture
def problem():
    draw = np.random.default_rng(0)
    return flow.wishart(draw, 6), draw.normal(size=6), draw.normal(size=4)  # kernel, f0, y


class TestClosedForms:
    @pytest.mark.parametrize("t", [0.0, 0.3, 7.0])
    def test_flow_is_the_formula(self, problem, t):
        kernel, f0, y = problem
        k = kernel[:4, :4]
        slow = f0 + kernel[:, :4] @ np.linalg.inv(k) @ (np.eye(4) - expm(-t * k / 4)) @ (y - f0[:4])
        np.testing.assert_allclose(flow.closed(kernel, f0, y, [t])[0], slow, atol=1e-13)

    def test_integration_of_one_point(self):
        """n = 1: f decays to its label like exp(-t k)."""
        found = flow.integrated(np.array([[2.0]]), np.array([3.0]), np.array([1.0]), [0.5, 1.0], 1.0)
        np.testing.assert_allclose(found[:, 0], 1 + 2 * np.exp([-1.0, -2.0]), atol=1e-12)

    def test_powers_are_repeated_steps(self, problem):
        kernel, f0, y = problem
        f = f0.copy()
        for _ in range(5):
            f -= 0.3 / 4 * kernel[:, :4] @ (f[:4] - y)
        np.testing.assert_allclose(flow.powers(kernel, f0, y, 0.3, 5), f, atol=1e-13)
        np.testing.assert_allclose(flow.descent(kernel, f0, y, 0.3, 5), f, atol=1e-13)

    def test_the_limit_interpolates(self, problem):
        kernel, f0, y = problem
        np.testing.assert_allclose(flow.solved(kernel, f0, y)[:4], y, atol=1e-12)

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.floats(0, 50))
    def test_the_residual_never_grows(self, seed, n, t):
        draw = np.random.default_rng(seed)
        kernel, f0, y = flow.wishart(draw, n + 1), draw.normal(size=n + 1), draw.normal(size=n)
        early, late = flow.closed(kernel, f0, y, [t, 2 * t])
        assert np.linalg.norm(late[:n] - y) <= np.linalg.norm(early[:n] - y) * (1 + 1e-9) + 1e-12


class TestStep:
    def test_bisection(self):
        assert flow.stable(lambda eta: eta > 0.7, 8.0) == pytest.approx(0.7, abs=1e-9)

    @pytest.mark.parametrize(("share", "unstable"), [(0.99, False), (1.01, True)])
    def test_twice_n_over_the_largest_eigenvalue(self, share, unstable):
        kernel = np.diag([4.0, 1.0])
        assert flow.grows(kernel, np.ones(2), share * 2 * 2 / 4, 400) is unstable

    def test_no_residual_never_grows(self):
        assert flow.grows(np.eye(2), np.zeros(2), 100.0, 10) is False


class TestKernels:
    @pytest.mark.parametrize("setting", flow.SETTINGS)
    def test_every_check_holds_but_the_printed_one(self, setting):
        sizes = {"points": [1, 4], "trials": 1, "test": 2, "steps": 300}
        task = Task(setting, sizes, 0, CPU)
        for part in flow.parts(sizes):
            rows = {row["check"]: row for row in flow.measure(task, part)}
            assert all(set(flow.COLUMNS) == {*row, *part} for row in rows.values())
            assert all(rows[check]["error"] < 1e-10 for check in ("mean", "sum", "limit", "descent"))
            assert rows["step"]["error"] < 1e-2
            assert (rows["printed"]["error"] < 1e-10) == (part["n"] == 1)  # one point: mean and sum are the same


class TestWidth:
    def net(self, m: int = 5, activation: str = "erf") -> tuple:
        draw = torch.Generator().manual_seed(0)
        x, y = torch.randn(5, 3, generator=draw).double(), torch.randn(3, generator=draw).double()
        return _two_layers.draw(m, 3, activation, draw, CPU), x, y

    @pytest.mark.parametrize("first", [True, False])
    def test_training_is_that_of_autograd(self, first):
        net, x, y = self.net()
        w, a = net.w.clone().requires_grad_(), net.a.clone().requires_grad_(not first)
        mine = [w] if first else [w, a]
        f = lambda: torch.erf(x @ w.T / 3**0.5) @ a / 5**0.5  # noqa: E731

        def jacobian() -> torch.Tensor:
            rows = [torch.autograd.grad(each, mine, retain_graph=True) for each in f()]
            return torch.stack([torch.cat([g.flatten() for g in row]) for row in rows])

        start, kernel0 = f().detach(), (j := jacobian()) @ j.T
        eta, v, sup, moved = 3 / torch.linalg.eigvalsh(kernel0[:3, :3])[-1], torch.zeros(j.shape[1]).double(), 0, 0
        for _ in range(7):
            grads = torch.autograd.grad(((f()[:3] - y) ** 2).sum() / 6, mine)
            with torch.no_grad():
                for weight, grad in zip(mine, grads, strict=True):
                    weight -= eta * grad
            v = v - eta / 3 * j[:3].T @ (start[:3] + j[:3] @ v - y)  # the linearised net's weights
            sup = max(sup, (f() - start - j @ v).norm().item())
            now = jacobian()
            moved = max(moved, (now @ now.T - kernel0).norm().item())
        found = wide.train(net, x, y, first, 7)
        assert found["distance"] == pytest.approx(sup)
        assert found["movement"] == pytest.approx(moved)
        assert found["unequal"] == pytest.approx(abs(sup - moved) / max(sup, moved))
        torch.testing.assert_close(found["f"], f().detach())

    @pytest.mark.parametrize("activation", ["erf", "relu"])
    @pytest.mark.parametrize("first", [True, False])
    def test_the_kernel_tends_to_the_infinite_one(self, activation, first):
        net, x, _ = self.net(200_000, activation)
        k = infinite.fcn(x, depth=1, activation=activation, weight_variance=1.0)
        expected = k.ntk - k.nngp if first else k.ntk
        assert (wide.kernel(net, x, x, first) - expected).norm() < 0.02 * expected.norm()

    def test_a_net_without_active_neurons_is_refused(self):
        net, x, y = self.net(1, "relu")
        with pytest.raises(UserError, match="singular on 3 points"):
            wide.train(net, x, y, True, 5)

    @pytest.mark.parametrize("setting", wide.SETTINGS)
    def test_few_neurons_and_one_point(self, setting):
        sizes = {"widths": [1, 32] if "erf" in setting else [32], "trials": 1}
        sizes |= {"points": 1, "test": 1, "dimension": 1, "steps": 20}
        task = Task(setting, sizes, 1, CPU)
        for part in wide.parts(sizes):
            (row,) = wide.measure(task, part)
            assert set(wide.COLUMNS) == {*row, *part}
            assert [row] == wide.measure(task, part)
