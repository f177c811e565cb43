"""The block formula (2.12) gives what training on one more label gives, if v has the inverse that the thesis left out.

Statement: f_{L + (x', y')} = f_L^lin + (K(x, L) v - K(x, x')) (v^T (Y - f_L(L)) - (y' - f_L(x'))) / u, with
u = K(x', x') - K(x', L) K_LL^-1 K(L, x'). The thesis prints v = K_LL K(L, x'); meant is v = K_LL^-1 K(L, x').
Where: thesis (2.12).
Refuted by: a difference from the solution of the (L + 1)-dimensional system (2.11) beyond rounding, which is condition
number times 1e-16. As printed the formula is right only where K_LL^2 = I.

Kernels: `spectrum` has eigenvalues spaced evenly in logarithms between 1 and 1 / condition, in a random basis;
`gaussian` is exp(-|x - x'|^2 / 2 l^2) of points in the plane, l chosen for the condition number. The same answers must
come from the posterior covariance, which the suite uses. All four get the suite's jitter, 1e-10 of the mean diagonal.
"""

import numpy as np
import torch

from bench.core.errors import UserError
from bench.kernels import lookahead
from bench.studies.theory.task import Task

SETTINGS = ("spectrum", "gaussian")
COLUMNS = ("condition", "trial", "measured_condition", "error", "posterior_error", "printed_error", "share")


def parts(sizes: dict) -> list[dict]:
    return [{"condition": float(condition)} for condition in sizes["conditions"]]


def measure(task: Task, part: dict) -> list[dict]:
    labelled, pool, rows = task.sizes["labelled"], task.sizes["pool"], []
    for trial in range(task.sizes["trials"]):
        draw = task.draw("block-formula", part["condition"], trial)
        k = KERNELS[task.setting](labelled + pool, part["condition"], draw)
        residual, prior = draw.normal(size=(labelled, 1)), draw.normal(size=(pool, 1))
        blocks = k[:labelled, :labelled], k[labelled:, :labelled], k[labelled:, labelled:]
        rows.append({"trial": trial} | compare(*blocks, residual, prior, draw.normal(size=pool)))
    return rows


def compare(
    k_ll: np.ndarray, k_ul: np.ndarray, k_uu: np.ndarray, residual: np.ndarray, prior: np.ndarray, labels: np.ndarray
) -> dict:
    """Largest differences from the direct solution over all candidates, relative to the largest change of an output."""
    given = [torch.from_numpy(np.ascontiguousarray(part)) for part in (k_ll, k_ul, k_uu, residual, prior)]
    known = lookahead.posterior(*(part.clone() for part in given))
    ahead = lookahead.block(*given)
    firm = k_ll + known.jitter * np.eye(len(k_ll))
    f_lin = prior[:, 0] + k_ul @ np.linalg.solve(firm, residual[:, 0])  # (2.11)
    errors = {"error": 0.0, "posterior_error": 0.0, "printed_error": 0.0}
    change = 0.0
    for i, y in enumerate(labels):
        truth = direct(firm, k_ul, k_uu, residual[:, 0], prior[:, 0], i, y, known.jitter)
        label = torch.tensor([y])
        found = {"error": ahead(i, label)[:, 0].numpy()}
        found["posterior_error"] = lookahead.look_ahead(known, i, label)[:, 0].numpy()
        found["printed_error"] = printed(firm, k_ul, k_uu, residual[:, 0], prior[:, 0], f_lin, i, y, known.jitter)
        errors = {name: max(errors[name], float(np.abs(value - truth).max())) for name, value in found.items()}
        change = max(change, float(np.abs(truth - f_lin).max()))
    condition = float(np.linalg.cond(firm))
    if not change:
        raise UserError("no candidate changes anything: labels determine all outputs already")
    errors = {name: value / change for name, value in errors.items()}
    return errors | {"measured_condition": condition, "share": errors["error"] / (condition * np.finfo(float).eps)}


def direct(firm, k_ul, k_uu, residual, prior, i: int, y: float, jitter: float) -> np.ndarray:
    """(2.11) on L and candidate i, by LU of the system of size L + 1; outputs (U,)."""
    matrix = np.block([[firm, k_ul[i][:, None]], [k_ul[i][None], k_uu[i, i] + jitter]])
    weights = np.linalg.solve(matrix, np.append(residual, y - prior[i]))
    return prior + np.column_stack([k_ul, k_uu[:, i]]) @ weights


def printed(firm, k_ul, k_uu, residual, prior, f_lin, i: int, y: float, jitter: float) -> np.ndarray:
    """(2.12) to the letter: v = K_LL K(L, x'), u with the inverse; outputs (U,)."""
    v = firm @ k_ul[i]
    u = k_uu[i, i] + jitter - k_ul[i] @ np.linalg.solve(firm, k_ul[i])
    return f_lin + (k_ul @ v - k_uu[:, i]) * (v @ residual - (y - prior[i])) / u


def spectrum(n: int, condition: float, draw: np.random.Generator) -> np.ndarray:
    """A kernel (n, n) with eigenvalues from 1 down to 1 / condition."""
    basis, _ = np.linalg.qr(draw.normal(size=(n, n)))
    kernel = basis * np.geomspace(1, 1 / condition, n) @ basis.T
    return (kernel + kernel.T) / 2


def gaussian(n: int, condition: float, draw: np.random.Generator) -> np.ndarray:
    """exp(-|x - x'|^2 / 2 l^2) (n, n) of points in the plane, l such that the condition number is as wished to 5%."""
    x = draw.normal(size=(n, 2))
    squares = ((x[:, None] - x) ** 2).sum(2)
    low, high = 1e-4, 10.0  # l; the condition number grows with it
    for _ in range(40):
        length = np.sqrt(low * high)
        reached = np.linalg.cond(np.exp(-squares / (2 * length**2)))
        if abs(np.log(reached / condition)) < 0.05:
            break
        low, high = (length, high) if reached < condition else (low, length)
    return np.exp(-squares / (2 * length**2))


KERNELS = {"spectrum": spectrum, "gaussian": gaussian}
