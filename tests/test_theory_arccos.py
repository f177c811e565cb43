"""The arccos kernel against integrals and autograd, its rank on antipodes, and finite nets against the closed form."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from bench.kernels import infinite
from bench.studies.theory.experiments import _arccos, arccos, infinite_ntk, universality
from bench.studies.theory.task import Task

CPU = torch.device("cpu")


def task(setting: str, **sizes) -> Task:
    return Task(setting, sizes, 0, CPU)


class TestKernel:
    @pytest.mark.parametrize("degrees", [0, 30, 90, 150, 180])
    def test_closed_form_is_the_integral(self, degrees):
        """Of two normals at an angle: the share of directions in which both are positive."""
        angle = np.radians(degrees)
        both = lambda phi: (np.cos(phi) > 0) & (np.cos(phi - angle) > 0)  # noqa: E731
        share, _ = integrate.quad(both, -np.pi, np.pi, points=[-np.pi / 2, np.pi / 2, angle - np.pi / 2], limit=200)
        assert _arccos.slopes(angle) == pytest.approx(share / (2 * np.pi), abs=1e-6)

    def test_kernel_is_the_expected_gram_of_gradients(self):
        """<grad f(x), grad f(x')> of the inner weights by autograd, for outer weights +-1."""
        draw = np.random.default_rng(0)
        x, w = _arccos.sphere(draw, 3, 4), torch.tensor(draw.normal(size=(200_000, 4)), requires_grad=True)
        outer = torch.tensor(draw.choice([-1.0, 1.0], size=len(w)))
        f = torch.relu(w @ torch.tensor(x).T).T @ outer / len(w) ** 0.5
        grads = torch.stack([torch.autograd.grad(value, w, retain_graph=True)[0].flatten() for value in f])
        np.testing.assert_allclose(grads @ grads.T, _arccos.kernel(x, x), atol=5 * 0.5 / len(w) ** 0.5)

    @given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 8))
    def test_it_is_a_kernel(self, seed, d, n):
        x = _arccos.sphere(np.random.default_rng(seed), n, d)
        k = _arccos.kernel(x, x)
        np.testing.assert_allclose(np.diag(k), 0.5, atol=1e-14)
        np.testing.assert_allclose(k, k.T, atol=1e-15)
        assert np.linalg.eigvalsh(k)[0] > -1e-13
        np.testing.assert_allclose(np.diag(_arccos.kernel(x, -x)), 0, atol=1e-15)

    @given(st.floats(1e-9, np.pi - 1e-9))
    def test_angles_are_exact_where_arccos_is_not(self, angle):
        x, y = np.array([[1.0, 0.0]]), np.array([[np.cos(angle), np.sin(angle)]])
        assert _arccos.angles(x, y)[0, 0] == pytest.approx(angle, rel=1e-6, abs=1e-15)


class TestMonteCarlo:
    def test_no_neuron_is_active_at_antipodes(self):
        rows = arccos.measure(task("monte-carlo", widths=[8], trials=3, dimension=5, angles=[0, 180]), {"m": 8})
        assert [row["closed"] for row in rows] == [0.5, 0]
        assert rows[1]["error"] == rows[1]["z"] == 0

    @pytest.mark.parametrize("d", [1, 2, 7])
    def test_few_coordinates(self, d):
        given = task("monte-carlo", widths=[1, 5000], trials=4, dimension=d, angles=[0, 180])
        for part in arccos.parts(given.sizes):
            rows = arccos.measure(given, part)
            assert all(row["z"] < 5 for row in rows)
            assert all(set(arccos.COLUMNS) == {*row, *part} for row in rows)
            assert rows == arccos.measure(given, part)

    def test_the_plane_is_orthonormal(self):
        x, away = arccos.plane(np.random.default_rng(1), 4)
        np.testing.assert_allclose([x @ x, away @ away, x @ away], [1, 1, 0], atol=1e-15)

    def test_counts_neuron_by_neuron(self):
        draw = np.random.default_rng(2)
        w, x, turned = draw.normal(size=(50, 3)), draw.normal(size=3), draw.normal(size=(2, 3))
        slow = [sum(bool(v @ x > 0 and v @ y > 0) for v in w) / 50 for y in turned]
        np.testing.assert_allclose(arccos.both_active(w, x, turned), slow)

    def test_standard_errors(self):
        assert arccos.z(0.6, 0.5, 100) == pytest.approx(2)
        assert arccos.z(0.0, 0.0, 100) == 0
        assert arccos.z(0.01, 0.0, 100) == pytest.approx(2)


class TestUniversality:
    @pytest.mark.parametrize("d", [1, 2, 5])
    @pytest.mark.parametrize("setting", universality.SETTINGS)
    def test_rank_is_as_predicted(self, setting, d):
        given = task(setting, dimensions=[d], points=[2] if d == 1 else [2, 6, 20])
        rows = universality.measure(given, {"d": d})
        antipodal = [row for row in rows if row["points"] == "antipodal"]
        assert all(row["off"] == 0 for row in antipodal)
        assert all(set(universality.COLUMNS) == {*row, "d"} for row in rows)

    def test_the_constant_coordinate(self):
        x = universality.constant(_arccos.sphere(np.random.default_rng(0), 4, 3))
        np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1)
        np.testing.assert_allclose(x[:, -1], 1 / np.sqrt(2))

    def test_an_odd_target_is_lost_on_antipodes_alone(self):
        half = _arccos.sphere(np.random.default_rng(0), 10, 2)
        x = np.concatenate([half, -half])
        odd = x[:, 0] ** 3
        linear = x @ np.linalg.lstsq(x, odd, rcond=None)[0]  # what the kernel's space has of it
        found = universality.gram(x, odd)
        assert found["unlearnt"] == pytest.approx(np.linalg.norm(odd - linear) / np.linalg.norm(odd))
        assert universality.gram(universality.constant(x), odd)["unlearnt"] == 0

    def test_repeated_points_are_singular(self):
        x = universality.constant(np.repeat(_arccos.sphere(np.random.default_rng(0), 3, 3), 2, axis=0))
        assert universality.gram(x, np.ones(6))["rank"] == 3


class TestInfinite:
    def test_error_is_that_of_the_definition(self):
        given = task("erf-1", widths=[3], trials=2, points=4, dimension=2)
        (row,) = infinite_ntk.measure(given, {"width": 3})
        x, thetas = infinite_ntk.points(given), []
        for trial in range(2):
            draw = given.torch_draw("infinite-ntk", "net", 3, trial)
            net = infinite_ntk.build("fcn+depth=1+activation=erf", (2, 1, 1), 1, 3, draw).double()
            rows = [torch.autograd.grad(net(p[None])[0, 0], list(net.parameters())) for p in x]
            jacobian = torch.stack([torch.cat([g.flatten() for g in grads]) for grads in rows])
            thetas.append(jacobian @ jacobian.T)
        closed = infinite.fcn(x, depth=1, activation="erf", width=3).ntk
        slow = [((theta - closed).norm() / closed.norm()).item() for theta in thetas]
        assert row["error"] == pytest.approx(np.sqrt(np.mean(np.square(slow))))
        mean = sum(thetas) / 2
        assert row["bias"] == pytest.approx(((mean - closed).norm() / closed.norm()).item())

    @pytest.mark.parametrize("setting", infinite_ntk.SETTINGS)
    def test_wide_nets_are_near(self, setting):
        given = task(setting, widths=[8, 512], trials=8, points=3, dimension=4)
        (narrow,), (wide,) = (infinite_ntk.measure(given, part) for part in infinite_ntk.parts(given.sizes))
        assert 2 * wide["error"] < narrow["error"]
        assert set(infinite_ntk.COLUMNS) == {*wide, "width"}

    @pytest.mark.parametrize("sizes", [{"points": 1, "dimension": 1}, {"points": 2, "dimension": 3}])
    def test_width_one(self, sizes):
        (row,) = infinite_ntk.measure(task("relu-3", widths=[1], trials=1, **sizes), {"width": 1})
        assert np.isfinite(row["error"])
