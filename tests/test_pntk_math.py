"""The quantities of thesis chapter 3 against slow, obvious references and cases with a known answer."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from definition import jacobian, theta_of
from test_nets import images, shaken, small

from bench.kernels.cholesky import NotPositive
from bench.studies.pntk.measures.surrogates import _errors
from bench.studies.pntk.quantities import POINTS, apart, compare, relative, solve
from bench.studies.pntk.rates import bound, exponents, rates
from bench.studies.pntk.training import CURVATURE, SHARE, one_pass, spectrum_rate


def kernels(n: int = POINTS + 3, o: int = 4, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """An eNTK of random gradients (N O, N O) and its pNTK (N, N)."""
    j = torch.randn(n, o, 200, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    j = j + 0.7 * torch.randn(n, 1, 200, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    return theta_of(j, j), theta_of(j, j, "pseudo")


def test_the_pntk_is_the_sum_of_the_entries_of_the_entk_over_o():
    net, x = shaken(small("fcn")), images(6, (1, 8, 8)).double()
    j = jacobian(net, x)
    theta, pseudo = theta_of(j, j), theta_of(j, j, "pseudo")
    o = j.shape[1]
    torch.testing.assert_close(theta.view(6, o, 6, o).sum((1, 3)) / o, pseudo)
    assert compare(theta, pseudo)["identity"] < 1e-14
    assert compare(theta, pseudo + 1)["identity"] > 1e-3


def test_every_quantity_by_its_definition():
    theta, pseudo = kernels()
    n, o = len(pseudo), len(theta) // len(pseudo)
    found = compare(theta, pseudo)
    on = off = on_sum = off_sum = 0.0
    pairs, points, largest = [], [], []
    for a in range(n):
        for b in range(n):
            block = theta[a * o : (a + 1) * o, b * o : (b + 1) * o]
            diagonal, rest = block.diagonal(), block - torch.diag(block.diagonal())
            on, off = on + diagonal.abs().sum().item(), off + rest.abs().sum().item()
            on_sum, off_sum = on_sum + abs(diagonal.sum().item()), off_sum + abs(rest.sum().item())
            error = (pseudo[a, b] * torch.eye(o, dtype=torch.float64) - block).norm() / block.norm()
            (points if a == b else pairs).append(error.item())
            if a == b:
                most = torch.linalg.eigvalsh(block)[-1]
                largest.append((abs(most - pseudo[a, a]) / most).item())
    whole = torch.kron(pseudo, torch.eye(o, dtype=torch.float64))
    expected = {
        "on_diagonal": on / n**2,
        "off_diagonal": off / n**2,
        "on_diagonal_sum": on_sum / n**2,
        "off_diagonal_sum": off_sum / n**2,
        "theta_norm": theta.norm().item(),
        "pseudo_norm": whole.norm().item(),
        "frobenius": ((whole - theta).norm() / theta.norm()).item(),
        "frobenius_of_norms": abs(whole.norm() - theta.norm()).item() / theta.norm().item(),
        "frobenius_per_pair": float(np.mean(pairs)),
        "frobenius_per_point": float(np.mean(points)),
        "lambda_max_per_point": float(np.mean(largest)),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-10), name


def test_sums_of_float32_kernels_are_float64_ones():
    """Many equal numbers: a float32 sum would stall."""
    theta = torch.full((2000, 2000), 0.1)
    found = compare(theta, torch.full((200, 200), 0.1))
    assert found["theta_norm"] == pytest.approx(2000 * float(theta[0, 0]), rel=1e-12)


def test_a_kernel_that_is_p_kron_i_has_no_error():
    _, pseudo = kernels()
    found = compare(torch.kron(pseudo, torch.eye(4, dtype=torch.float64)), pseudo)
    assert found["frobenius"] < 1e-7  # a difference of squares
    assert found["off_diagonal"] < 1e-12 * found["on_diagonal"]
    assert found["lambda_max_per_point"] < 1e-12


def test_one_factorisation_gives_the_spectrum_and_the_weights_of_a_dense_solver():
    theta, _ = kernels()
    b = torch.randn(len(theta), 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    eigenvalues, exact = torch.linalg.eigvalsh(theta), torch.linalg.solve(theta, b)
    found = solve(theta.clone(), b)
    assert found.lambda_max == pytest.approx(eigenvalues[-1].item(), rel=1e-8)
    assert found.lambda_min == pytest.approx(eigenvalues[0].item(), rel=1e-5)
    assert found.resolved
    assert found.residual < 1e-8
    torch.testing.assert_close(found.weights, exact, rtol=1e-6, atol=1e-8)


def test_a_float32_kernel_stays_and_a_singular_one_gets_jitter_and_is_not_resolved():
    j = torch.randn(30, 1, 10, generator=torch.Generator().manual_seed(0))
    kernel = (j[:, 0] @ j[:, 0].T).float()
    before = kernel.clone()
    found = solve(kernel, torch.ones(30, 1))
    assert torch.equal(kernel, before)
    assert found.jitter > 0
    assert not found.resolved
    with pytest.raises(NotPositive):
        solve(-torch.eye(5), torch.ones(5, 1))


def test_distances():
    assert apart(torch.tensor([3.0, 4.0]), torch.zeros(2) + torch.tensor([3.0, 0.0])) == pytest.approx(4 / 3)
    assert relative(3.0, -2.0) == 2.5
    assert relative(1.0, 0.0) is None


def test_surrogate_errors_by_their_definition():
    theta, pseudo = kernels()
    whole = torch.kron(pseudo, torch.eye(4, dtype=torch.float64))
    scale = (theta * whole).sum() / whole.square().sum()
    found = _errors(theta, pseudo)
    assert found["frobenius"] == pytest.approx(((whole - theta).norm() / theta.norm()).item())
    assert found["frobenius_scaled"] == pytest.approx(((scale * whole - theta).norm() / theta.norm()).item())
    assert _errors(theta, 7 * pseudo)["frobenius_scaled"] == pytest.approx(found["frobenius_scaled"])


@pytest.mark.parametrize("loss", CURVATURE)
def test_the_rate_from_the_spectrum_is_stable_and_a_much_larger_one_is_not(loss):
    """On the linearised loss itself: heavy-ball descent of J theta + f, whose Hessian's sharpness is at most L."""
    from bench.learn.train import loss_of

    net, x = shaken(small("fcn")), images(6, (1, 8, 8)).double()
    j, y = jacobian(net, x), torch.arange(6) % 3  # (6, 3, P)
    rate = spectrum_rate(net, x, loss)

    def losses(lr: float) -> list[float]:
        theta = torch.zeros(j.shape[2], dtype=torch.float64, requires_grad=True)
        velocity, found = torch.zeros_like(theta), []
        for _ in range(300):
            value = loss_of(loss, net(x).detach() + j @ theta, y)
            (gradient,) = torch.autograd.grad(value, theta)
            velocity = 0.9 * velocity + gradient
            theta = (theta - lr * velocity).detach().requires_grad_()
            found.append(value.item())
        return found

    safe = losses(rate)
    assert safe[-1] < safe[0]
    if loss != "cross-entropy":  # a bounded gradient cannot blow up
        assert not losses(40 / SHARE * rate)[-1] < 1e3 * safe[0]  # nor is nan


def test_one_pass_gives_batch_norm_the_data_s_statistics_and_leaves_the_net_alone():
    net, x = small("wrn-16").float(), images(40, (1, 8, 8)).float()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    passed = one_pass(net, x)
    assert not passed.training
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name])
    for (name, mine), theirs in zip(passed.named_parameters(), net.parameters(), strict=True):
        assert torch.equal(mine, theirs), name
    maps = net.stem(x)  # (N, C, H, W), what the first batch norm sees
    first = passed.stages[0][0].bn1
    torch.testing.assert_close(first.running_mean, maps.mean((0, 2, 3)), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(first.running_var, maps.var((0, 2, 3)), rtol=1e-4, atol=1e-5)


def moments(exponent: float, along: str = "width", noise: float = 0.0) -> pd.DataFrame:
    from bench.studies.pntk.tables import MOMENTS

    rows = []
    for seed in range(4):
        for k, n in enumerate((64, 256, 1024)):
            value = 3 * n**exponent * math.exp(noise * ((seed + k) % 3 - 1))
            row = dict.fromkeys(MOMENTS, value) | {"width": 512, "outputs": 10} | {along: n}
            rows.append(
                row
                | {"panel": "p", "scale": "s", "net": "fcn", "recipe": f"sgd{n if along == 'outputs' else ''}"}
                | {"dataset": "cifar10", "measure": "kernels", "seed": seed, "epoch": 0, "statistics": "none"}
                | {"inputs": 48, "train_points": 10}
            )
    return pd.DataFrame(rows)


@pytest.mark.parametrize("exponent", [-0.5, 1.0])
@pytest.mark.parametrize("along", ["width", "outputs"])
def test_a_power_law_gives_its_exponent(exponent, along):
    table = exponents(rates(moments(exponent, along)))
    assert set(table["along"]) == {along}
    assert table["exponent"].to_numpy() == pytest.approx(exponent)
    assert (table["n"] == 4).all()
    assert (table["from"] == 64).all()
    assert (table["to"] == 1024).all()


def test_noise_widens_the_interval_around_it():
    row = exponents(rates(moments(-0.5, noise=0.1))).iloc[0]
    assert row["low"] < -0.5 < row["high"]
    assert row["high"] - row["low"] > 0.01


def test_the_bound_s_own_exponent():
    assert bound(64, 4096) == pytest.approx(math.log(math.log(4096) / math.log(64)) / math.log(64) - 0.5)
    assert bound(512, 4096) == pytest.approx(-0.36, abs=2e-3)  # the range of the claims


def test_saturated_errors_are_not_fitted_if_enough_others_are_there():
    table = moments(-0.5)
    flat = table.assign(width=table["width"] // 64, **dict.fromkeys(("frobenius", "on_diagonal"), 0.9))
    both = pd.concat([flat.assign(width=flat["width"] + 1), table.assign(frobenius=table["frobenius"] / 3)])
    found = exponents(rates(both)).set_index("quantity")
    assert found.loc["frobenius", "exponent"] == pytest.approx(-0.5)
    assert found.loc["frobenius", "from"] == 64
    assert found.loc["on_diagonal", "from"] == 2  # what grows is fitted over all
