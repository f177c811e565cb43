"""Nets on images against the linear model of their kernel: projection, descent, and what float32 changes."""

import numpy as np
import pytest
import torch

from bench.core.errors import UserError
from bench.learn import data
from bench.studies.theory.experiments import early_time_images as images
from bench.studies.theory.task import Task

SIZES = {"train": 60, "test": 30, "width": 16, "channels": 16, "rate": 0.5, "steps": 12, "rows": 6}


@pytest.fixture(scope="module")
def digits(root):
    return data.load("digits", root)


def nets(kind: str, dtype: torch.dtype = torch.float64):
    net = images.made(kind, (1, 4, 4), SIZES, torch.Generator().manual_seed(0)).to(dtype)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 1, 4, 4))).to(dtype)
    return net, x


@pytest.mark.parametrize("kind", ["fcn", "convnet"])
def test_nets_have_four_hidden_layers_and_train_no_biases(kind):
    net, x = nets(kind)
    trained = {name for name, parameter in net.named_parameters() if parameter.requires_grad}
    assert len(trained) == 5
    assert all(name.endswith("weight") for name in trained)
    assert net(x).shape == (20, 1)


@pytest.mark.parametrize("kind", ["fcn", "convnet"])
def test_a_small_step_follows_the_kernel(kind):
    """f moves by -eta / n Theta (f - target), to first order in eta."""
    net, x = nets(kind)
    theta = images.gram(net, x, output="first", budget=images.BUDGET)
    target, eta = torch.linspace(-1, 1, 20, dtype=torch.float64), 1e-6
    before = images.move(net, x, target, eta)
    found = (images.outputs(net, x) - before) / eta
    torch.testing.assert_close(found, -theta @ (before - target) / 20, atol=1e-4, rtol=1e-3)


def test_the_restriction_is_p_theta_p_and_linear_in_the_inputs():
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(12, 1, 2, 2)))
    x[:, :, 0, 0] = 0  # a pixel that never changes: three directions are left
    root = torch.from_numpy(np.random.default_rng(1).normal(size=(12, 12)))
    theta, flat = root @ root.T, x.flatten(1)
    basis, values, vectors, back = images.restricted(theta, x)
    p = flat @ torch.linalg.pinv(flat)
    assert basis.shape == (12, 3)
    torch.testing.assert_close(basis @ vectors @ torch.diag(values) @ vectors.T @ basis.T, p @ theta @ p)
    torch.testing.assert_close(flat @ back, basis @ vectors)


def test_losses_of_the_linear_model_are_those_of_its_own_descent():
    net, x = nets("fcn")
    y = torch.sign(torch.from_numpy(np.random.default_rng(2).normal(size=20)))
    theta = images.gram(net, x, output="first", budget=images.BUDGET)
    p = x.flatten(1) @ torch.linalg.pinv(x.flatten(1))
    kernel, u = p @ theta @ p, torch.zeros_like(y)
    eta = 0.5 * 20 / float(torch.linalg.eigvalsh(theta)[-1])
    rows = images.follow(net, x, y, x, y, 0.5, {0, 1, 5})
    for step in range(6):
        if step in (0, 1, 5):
            train, test = (row for row in rows if row["step"] == step)
            assert train["linear"] == test["linear"] == pytest.approx(images.loss(u, y))
            assert train["within_linear"] == pytest.approx(float((p @ (u - y)).square().sum()) / 40)
        u = u - eta / 20 * kernel @ (u - y)
    assert rows[0]["net"] == rows[0]["linear"] == 0.5
    assert rows[0]["left"] == pytest.approx(1)


def test_float32_changes_losses_by_less_than_1e_5():
    y = torch.sign(torch.from_numpy(np.random.default_rng(2).normal(size=20)))
    found = {}
    for dtype in (torch.float32, torch.float64):
        net, x = nets("fcn", dtype)
        found[dtype] = images.follow(net, x, y, x, y, 0.5, {0, 30, 100})
    for rough, exact in zip(*found.values(), strict=True):
        assert rough["net"] == pytest.approx(exact["net"], abs=1e-5)
        assert rough["linear"] == pytest.approx(exact["linear"], abs=1e-5)


def test_two_classes_are_centred_and_scaled(digits):
    x, y = images.pair(digits, "train", (3, 8), 50, np.random.default_rng(0))
    assert x.shape == (50, 1, 8, 8)
    assert set(y.tolist()) == {-1, 1}
    scaled, other = images.presented(x, x[:5])
    assert float(scaled.mean(0).abs().max()) < 1e-5
    assert float(scaled.square().mean()) == pytest.approx(1, abs=1e-5)
    torch.testing.assert_close(other, scaled[:5])


def test_equal_images_and_missing_classes_are_refused(digits):
    with pytest.raises(UserError, match="all training images are equal"):
        images.presented(torch.ones(3, 1, 2, 2), torch.ones(1, 1, 2, 2))
    with pytest.raises(UserError, match="at least 2 are needed"):
        images.pair(digits, "train", (10, 11), 50, np.random.default_rng(0))


def test_a_cell_on_digits(digits):
    task = Task("digits+net=fcn", SIZES, 0, torch.device("cpu"), digits)
    rows = images.measure(task, {})
    assert rows == images.measure(task, {})
    assert set(rows[0]) == set(images.COLUMNS)
    assert sum(row["last"] for row in rows) == 2
    assert rows[-2]["net"] < 0.5


def test_an_output_of_zero_is_half_wrong():
    assert images.wrong(torch.tensor([0.0, 2.0, -1.0, -1.0]), torch.tensor([1.0, 1.0, 1.0, -1.0])) == 0.375
