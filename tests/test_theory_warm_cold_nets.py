"""Two-layer nets against automatic differentiation, and warm and cold starts of trained ones."""

import math

import numpy as np
import pytest
import torch

from bench.core.errors import UserError
from bench.studies.theory.experiments import _two_layers, warm_cold_nets
from bench.studies.theory.task import Task

CPU = torch.device("cpu")
SIZES = {"points": 4, "test": 6, "d": 3, "stages": 2, "trials": 1, "tolerance": 1e-6, "steps": 5000}


def net_of(m: int = 7, d: int = 3, activation: str = "erf") -> _two_layers.Net:
    return _two_layers.draw(m, d, activation, torch.Generator().manual_seed(0), CPU)


@pytest.mark.parametrize("activation", ["relu", "erf"])
@pytest.mark.parametrize(("m", "d"), [(7, 3), (1, 1), (1, 4)])
def test_outputs_gradient_and_kernel(activation, m, d):
    net, x = net_of(m, d, activation), torch.randn(5, d, generator=torch.Generator().manual_seed(1)).double()
    phi = {"relu": lambda z: max(z, 0.0), "erf": math.erf}[activation]
    by_hand = [
        sum(net.a[j].item() * phi((net.w[j] @ point).item() / math.sqrt(d)) for j in range(m)) / math.sqrt(m)
        for point in x
    ]
    assert net(x).tolist() == pytest.approx(by_hand, rel=1e-12, abs=1e-15)
    outputs = lambda w, a: _two_layers.Net(w, a, activation)(x)  # noqa: E731
    jacobians = torch.func.jacrev(outputs, (0, 1))(net.w, net.a)
    j = torch.cat([part.flatten(1) for part in jacobians], 1)  # (5, P)
    torch.testing.assert_close(net.kernel(x, x), j @ j.T, rtol=1e-12, atol=1e-14)
    residual = torch.randn(5, generator=torch.Generator().manual_seed(2)).double()
    found = torch.cat([part.flatten() for part in net.gradient(x, residual)])
    torch.testing.assert_close(found, j.T @ residual, rtol=1e-12, atol=1e-14)


def test_a_zero_vector_has_no_first_layer_gradient():
    net = net_of(activation="relu")
    assert net(torch.zeros(1, 3).double()).item() == 0
    assert net.kernel(torch.zeros(1, 3).double(), torch.zeros(1, 3).double()).item() == 0


def test_no_units_are_refused():
    with pytest.raises(UserError, match="a net of width 0 on 3 features does not exist"):
        net_of(m=0)


def test_training_reaches_its_tolerance_and_stops():
    net, x = net_of(200), torch.randn(3, 3, generator=torch.Generator().manual_seed(1)).double()
    y = torch.tensor([1.0, -1.0, 0.5]).double()
    trained, steps, residual = _two_layers.train(net, x, y, 0.3, 1e-6, 10000)
    assert residual <= 1e-6
    assert 1 < steps < 10000
    assert float((trained(x) - y).norm() / y.norm()) == residual
    same, steps, _ = _two_layers.train(trained, x, y, 0.3, 1e-6, 10000)
    assert steps == 0
    assert same is trained
    assert _two_layers.train(net, x, y, 0.3, 1e-6, 5)[1] == 5


def test_rows_and_that_the_gap_falls():
    task = Task("erf", SIZES, 0, CPU)
    narrow, wide = (warm_cold_nets.measure(task, {"m": m})[0] for m in (16, 4096))
    assert 0 < wide["gap"] < narrow["gap"]
    assert wide["residual"] <= 1e-6
    assert set(wide) | {"m"} == set(warm_cold_nets.COLUMNS)
    assert warm_cold_nets.measure(task, {"m": 16})[0] == narrow  # the same bytes again


def test_one_stage_is_a_cold_start():
    task = Task("relu", SIZES | {"stages": 1}, 0, CPU)
    assert warm_cold_nets.measure(task, {"m": 32})[0]["gap"] == 0


def test_more_stages_than_points_are_refused():
    with pytest.raises(UserError, match="5 stages need as many points, there are 4"):
        warm_cold_nets.measure(Task("erf", SIZES | {"stages": 5}, 0, CPU), {"m": 4})
    assert np.isfinite(warm_cold_nets.measure(Task("erf", SIZES | {"steps": 1}, 0, CPU), {"m": 1})[0]["gap"])
