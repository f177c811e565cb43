"""Factors in place, and eigenvalues from them, against dense solvers."""

import subprocess
import sys

import pytest
import torch
from conftest import REPO
from hypothesis import given
from hypothesis import strategies as st

from bench.core.errors import UserError
from bench.kernels.cholesky import Factor, NotPositive
from bench.kernels.regression import regress
from bench.kernels.spectrum import ends, noise


def kernel(n: int, rank: int | None = None, seed: int = 0, dtype=torch.float64) -> torch.Tensor:
    x = torch.randn(n, rank or 2 * n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    k = x @ x.T / n
    return ((k + k.T) / 2).to(dtype)


def spread(n: int, condition: float) -> torch.Tensor:
    """A kernel with eigenvalues from 1 / condition to 1."""
    q, _ = torch.linalg.qr(kernel(n))
    k = q @ torch.diag(torch.logspace(-torch.tensor(condition).log10().item(), 0, n, dtype=torch.float64)) @ q.T
    return (k + k.T) / 2


@given(n=st.integers(1, 40), panel=st.integers(1, 50), shift=st.sampled_from([0.0, 0.3]), columns=st.integers(1, 3))
def test_any_size_and_panel(n, panel, shift, columns):
    k = kernel(n)
    b = torch.randn(n, columns, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    shifted = k + shift * torch.eye(n, dtype=k.dtype)
    factor = Factor(k.clone(), shift, panel)
    torch.testing.assert_close(factor.matrix.tril(), torch.linalg.cholesky(shifted))
    torch.testing.assert_close(factor.solve(b), torch.linalg.solve(shifted, b), rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(factor.product(b), k @ b)
    torch.testing.assert_close(factor.norm(), torch.linalg.matrix_norm(shifted, 1))
    assert torch.equal(factor.restore(), k)


@pytest.mark.parametrize("size", [1, 7, 16, 50])
def test_the_factor_of_the_first_points_is_a_part(size):
    """So accuracy against N costs one factorisation."""
    k, b = kernel(50), kernel(50)[:, :2]
    factor = Factor(k.clone(), panel=16)
    found = factor.backward(factor.forward(b), size)
    torch.testing.assert_close(found, torch.linalg.solve(k[:size, :size], b[:size]))


@pytest.mark.parametrize("row", [0, 5, 17, 39])
def test_a_kernel_that_is_none_is_named_and_left_as_it_was(row):
    k = kernel(40)
    k[row, row] = -1.0
    before = k.clone()
    with pytest.raises(NotPositive) as error:
        Factor(k, panel=8)
    assert error.value.row == row
    assert torch.equal(k, before)


def test_regression_in_place_gives_the_same_and_puts_the_kernel_back():
    k, y = kernel(30, dtype=torch.float64), torch.eye(10, dtype=torch.float64).repeat(3, 1)
    before = k.clone()
    usual = regress(k, k, y)
    assert torch.equal(k, before)
    inside = regress(k, k, y, in_place=True)
    assert torch.equal(k, before)
    for ours, theirs in zip(inside, usual, strict=True):
        assert ours is theirs or torch.equal(torch.as_tensor(ours), torch.as_tensor(theirs))


MEASURE = """
import resource, sys, torch
from bench.kernels.regression import regress
torch.set_num_threads(1)
n = 10000
k = torch.full((n, n), 0.5)
k.diagonal().fill_(1.5)
y, cross = torch.randn(n, 10), k[:10]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
regress(k, cross, y, in_place=sys.argv[1] == "in")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / (4 * n * n))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("where", "most"), [("in", 0.6), ("beside", 1.6)])
def test_memory_in_matrices_beside_the_kernel(where, most):
    command = [sys.executable, "-c", MEASURE, where]
    result = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < most


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e6, 1e10])
@pytest.mark.parametrize("n", [2, 30, 200])
def test_ends_of_the_spectrum_are_a_dense_solver_s(n, condition):
    k = spread(n, condition)
    eigenvalues, floor = torch.linalg.eigvalsh(k), noise(k)
    least, most = ends(Factor(k, panel=64))
    assert most == pytest.approx(eigenvalues[-1].item(), rel=1e-8)
    assert least == pytest.approx(eigenvalues[0].item(), rel=1e-5)
    assert least > floor


def test_the_shift_is_no_part_of_the_spectrum():
    k = spread(50, 1e4)
    assert ends(Factor(k.clone(), shift=1e-3))[0] == pytest.approx(1e-4, rel=1e-6)


def test_a_singular_kernel_s_smallest_eigenvalue_is_not_resolved():
    k = kernel(40, rank=20)
    floor = noise(k)
    least, _ = ends(Factor(k, shift=1e-10 * k.diagonal().mean().item()))
    assert least <= floor


def test_noise_is_what_rounding_to_float32_does_to_a_zero_eigenvalue():
    """A singular kernel whose entries are rounded has smallest eigenvalues of that size, and not above it."""
    for seed in range(5):
        k = kernel(300, rank=100, seed=seed).float()
        least = torch.linalg.eigvalsh(k.double()).abs()[:200].max().item()
        assert noise(k) / 100 < least < noise(k)


@pytest.mark.parametrize("condition", [1e2, 1e5])
def test_refinement_gives_a_float64_solution_of_a_float32_kernel(condition):
    k = spread(120, condition).float()
    b = torch.randn(120, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    exact = torch.linalg.solve(k.double(), b)
    factor = Factor(k.clone(), panel=32)
    found, residual = factor.refined(b, steps=4)
    rough = factor.solve(b.float()).double()
    assert (found - exact).norm() < 1e-9 * exact.norm()
    assert (rough - exact).norm() > 1e-7 * exact.norm()
    assert residual < 1e-11


def test_one_point():
    assert ends(Factor(torch.tensor([[2.5]], dtype=torch.float64))) == (pytest.approx(2.5), pytest.approx(2.5))


def test_regression_names_the_row_that_breaks_it():
    k = kernel(10)
    k[3, 3] = -5.0
    with pytest.raises(UserError, match="row 3 is, to rounding, a combination"):
        regress(k, k, torch.ones(10, 1, dtype=torch.float64))
