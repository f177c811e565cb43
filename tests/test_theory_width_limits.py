"""Nets of chapter 2 and their linearisation: suprema against autograd in weight space, stages, batch normalisation."""

import numpy as np
import pytest
import torch

from bench.nets import build
from bench.studies.theory.experiments import width_limits as limits
from bench.studies.theory.task import Task

CPU = torch.device("cpu")
SIZES = {"fcn": [4, 8], "wrn": [4], "resnet18": [1], "points": 4, "test": 1, "pixels": 4, "steps": 2, "share": 0.5}


def made(spec: str, width: int) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    x = torch.from_numpy(limits.images(np.random.default_rng(0), 4, 4))
    net = build(spec, (3, 4, 4), 1, width, torch.Generator().manual_seed(0)).double()
    limits.settle(net, x)
    return net, x, torch.tensor([1.0, -1.0]).double()


@pytest.mark.parametrize(("spec", "width"), [("fcn", 6), ("wrn", 4)])
def test_suprema_are_those_of_weight_space(spec, width):
    net, x, y = made(spec, width)
    slow, x2, _ = made(spec, width)
    weights = list(slow.parameters())

    def jacobian() -> torch.Tensor:
        rows = [torch.autograd.grad(f, weights, retain_graph=True) for f in slow(x2)[:, 0]]
        return torch.stack([torch.cat([g.flatten() for g in row]) for row in rows])

    start, j = slow(x2)[:, 0].detach(), jacobian()
    kernel = j @ j.T
    eta, v, sup, moved = 1 / torch.linalg.eigvalsh(kernel[:2, :2])[-1], torch.zeros(j.shape[1]).double(), 0, 0
    for _ in range(3):
        loss = ((slow(x2)[:2, 0] - y) ** 2).sum() / 4
        with torch.no_grad():
            for weight, grad in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                weight -= eta * grad
        v = v - eta / 2 * j[:2].T @ (start[:2] + j[:2] @ v - y)  # the linearised net's weights
        sup = max(sup, (slow(x2)[:, 0] - start - j @ v).norm().item())
        now = jacobian()
        moved = max(moved, (now @ now.T - kernel).norm().item())
    found = limits.train(net, x, y, 3, 0.5)
    assert found["distance"] == pytest.approx(sup, rel=1e-8)
    assert found["movement"] == pytest.approx(moved, rel=1e-8)
    assert found["relative"] == pytest.approx(moved / kernel.norm().item(), rel=1e-8)
    assert found["unequal"] == pytest.approx(abs(sup - moved) / max(sup, moved), rel=1e-8)
    assert found["change"] == pytest.approx((slow(x2)[:, 0] - start).norm().item(), rel=1e-8)


def test_a_linear_net_is_its_linearisation():
    net, y = torch.nn.Linear(3, 1).double(), torch.tensor([1.0]).double()
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3)))
    found = limits.train(net, x, y, 5, 1.0)
    assert found["distance"] < 1e-12
    assert found["movement"] == 0


def test_batch_norm_keeps_the_statistics_of_the_images():
    net, x, _ = made("wrn", 4)
    assert not net.training
    bn = next(layer for layer in net.modules() if isinstance(layer, torch.nn.BatchNorm2d))
    with torch.no_grad():
        seen = net.stem(x)
    torch.testing.assert_close(bn.running_mean, seen.mean((0, 2, 3)))
    torch.testing.assert_close(bn.running_var, seen.var((0, 2, 3)))


@pytest.mark.parametrize("pixels", [1, 3, 8])
def test_images_have_unit_variance(pixels):
    x = limits.images(np.random.default_rng(0), 4000, pixels)
    assert x.shape == (4000, 3, pixels, pixels)
    assert x.var() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("setting", limits.SETTINGS)
def test_rows(setting):
    task = Task(setting, SIZES, 0, CPU)
    rows = [row for part in limits.parts(SIZES) for row in limits.measure(task, part)]
    assert [row["width"] for row in rows] == [width for width in SIZES[setting] for _ in range(2)]
    assert [row["stage"] for row in rows] == ["start", "retrain"] * len(SIZES[setting])
    assert all(set(row) == set(limits.COLUMNS) for row in rows)
    assert rows[:2] == limits.measure(task, {"rung": 0})
