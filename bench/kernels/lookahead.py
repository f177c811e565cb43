"""What a linearised network would predict after one more label, for every candidate at once (thesis 2.2).

Labelled points L, candidates U, O outputs. The linearised network, trained on the labels for ever, is on the candidates

    f_lin = f_L(U) + K_UL K_LL^-1 (Y - f_L(L))                                                            (2.10), (2.11)

Training it on a candidate x' labelled y' as well is one step of conditioning. With what is left of the kernel,

    S = K_UU - K_UL K_LL^-1 K_LU,    f_{L + (x', y')}(x) = f_lin(x) + S[x, x'] S[x', x']^-1 (y' - f_lin(x')),

which is the thesis' (2.12) for all x and x' from one matrix. A kernel is scalar, one row per point, or full, rows
n O + o and S[x, x'] an O x O block; its size tells which. Everything is float64; float32 is refused.

    known = posterior(k_ll, k_ul, k_uu, residual, prior)     S takes the place of a contiguous K_UU: no second U x U
    scores = mlmoc(known, pseudo_labels)                     (U,), larger is better; also emoc, eer, mlmoc_flips
    known = add(known, best, true_label)                     sequential querying

(2.13) prints the distance from f_L to f_lin of the *old* labels; that of the new ones is meant. It can be read as the
distance from the network's outputs, `reference` = f_L(U), or from f_lin, `reference` None; they agree if f_L = f_lin.

Jitter is added to the diagonal of K_LL, by the "relative" rule of `regression`, and ten times more as long as the
factorisation fails. A candidate gets the same when it is added, so that adding equals starting again with one point
more. A candidate of which the labels leave nothing, S[x', x'] <= `FLOOR` K[x', x'] + 10 jitter in some direction (a
copy of a labelled image, an image with no gradient), changes nothing when added: f_lin stays. Their number is in the
`warning`, which is for the record.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from bench.core.errors import UserError
from bench.kernels.regression import JITTER, NOT_FINITE, check, condition_number
from bench.learn.probability import simplex

FLOOR = 1e-9  # of K[x', x']: rounding of S[x', x'] stays far below
MOST = 1e-2  # of the mean diagonal: a kernel that needs more jitter has truly negative eigenvalues
BLOCK = 512  # rows of S that are updated together
CHUNK = 2**22  # bytes of look-ahead outputs, or of rows of S, held at once

Ahead = Callable[[int, Tensor], Tensor]  # position i and label vector y (O,) -> outputs f_{L + (x_i, y)}(U), (U, O)


@dataclass(frozen=True)
class Posterior:
    """What is known after conditioning on the labelled points: f_lin on the candidates and the covariance left."""

    mean: Tensor  # f_lin (U, O)
    covariance: Tensor  # S (U, U), or (U O, U O) of a full kernel
    jitter: float  # on the diagonal of K_LL
    condition: float  # 1-norm condition number of K_LL, estimated from below; jitter hides what exceeds 1e10
    warning: str  # what is degenerate, in words, or ""
    floor: Tensor  # (U,) least S[x', x'] with which a candidate still says something

    @property
    def full(self) -> bool:
        return len(self.covariance) != len(self.mean)

    @cached_property
    def gain(self) -> Tensor:
        """(S[x', x'] + jitter)^-1, and 0 for candidates that change nothing; (U, s, s), s = 1 or O."""
        points = len(self.mean)
        blocks = _diagonal(self.covariance, points)  # (U, s, s)
        spent = torch.linalg.eigvalsh(blocks)[:, 0] <= self.floor
        eye = torch.eye(blocks.shape[1]).to(blocks)
        factor = torch.linalg.cholesky(torch.where(spent[:, None, None], eye, blocks + self.jitter * eye))
        return torch.cholesky_inverse(factor) * ~spent[:, None, None]


def posterior(k_ll: Tensor, k_ul: Tensor, k_uu: Tensor, residual: Tensor, prior: Tensor) -> Posterior:
    """Condition on labels: `residual` = Y - f_L(L) (L, O), `prior` = f_L(U) (U, O). `k_uu` is overwritten by S."""
    _check(k_ll, k_ul, k_uu, residual, prior)
    factor, jitter, grown = _factor(k_ll, k_uu)
    floor = _floor(k_uu, len(prior), jitter)
    a = torch.linalg.solve_triangular(factor, k_ul.mT, upper=False)  # K_LL = F F^T, a = F^-1 K_LU (n, m)
    z = torch.linalg.solve_triangular(factor, residual.reshape(len(k_ll), -1), upper=False)
    mean = prior + (a.mT @ z).reshape(prior.shape)  # (2.11)
    s = k_uu.contiguous()
    for i in range(0, len(s), BLOCK):  # S = K_UU - a^T a, the upper half, mirrored
        rows = s[i : i + BLOCK, i:]
        rows.addmm_(a[:, i : i + BLOCK].mT, a[:, i:], alpha=-1)
        s[i + BLOCK :, i : i + BLOCK] = rows[:, BLOCK:].mT
    if not torch.isfinite(mean).all() or not torch.isfinite(s.sum()):
        raise UserError(f"on the candidates, {NOT_FINITE}")
    norm = torch.linalg.matrix_norm(k_ll, 1)
    estimate = condition_number(norm, lambda b: torch.cholesky_solve(b, factor), k_ll.diagonal())
    warnings = [f"the labelled points' kernel is not positive definite: jitter raised to {jitter:.2g}"] * grown
    if not grown and estimate * jitter > torch.linalg.matrix_norm(k_ll, 1) / 2:  # |K^-1| ~ 1 / jitter
        warnings = [f"the labelled points' kernel is singular to rounding (condition {estimate:.2g} or more)"]
    found = Posterior(mean, s, jitter, estimate, "", floor)
    if spent := (found.gain.diagonal(dim1=1, dim2=2) == 0).all(1).sum().item():
        warnings.append(f"{spent} of {len(mean)} candidates change nothing: the labels determine their outputs already")
    return replace(found, warning="; ".join(warnings))


def add(posterior: Posterior, i: int, y: Tensor) -> Posterior:
    """Candidate i gets the label vector y (O,) for good: an update of rank one, of rank O for a full kernel."""
    s, points = posterior.covariance, len(posterior.mean)
    rows = s.view(points, -1, len(s))[i]  # S[x_i, :] (s, m)
    covariance = torch.addmm(s, rows.mT, posterior.gain[i] @ rows, alpha=-1)
    return replace(posterior, mean=look_ahead(posterior, i, y), covariance=covariance)


def look_ahead(posterior: Posterior, i: int, y: Tensor) -> Tensor:
    """f_{L + (x_i, y)} on all candidates, (U, O); y is (O,)."""
    return _outputs(posterior, torch.tensor([i]), y[None])[0]


def mlmoc(posterior: Posterior, pseudo_labels: Tensor, reference: Tensor | None = None) -> Tensor:
    """Most likely model output change, sum_x |reference(x) - f_{L + (x', y')}(x)|_2 (2.13); labels (U, O), (U,)."""
    if posterior.full:
        reference = posterior.mean if reference is None else reference
        every = torch.arange(len(pseudo_labels))
        return _each(posterior, every, every, pseudo_labels, lambda outputs: distance(outputs, reference))
    r = pseudo_labels - posterior.mean  # r' = y' - f_lin(x'), (U, O)
    if reference is None:
        return r.norm(dim=1) * _spread(posterior)
    # d = f_lin - f_L and c = S[x, x'] / S[x', x']:  |d_x + c r'|^2 = |d_x|^2 + 2 c d_x.r' + c^2 |r'|^2
    d = posterior.mean - reference  # (U, O)
    dd, rr, gain = (d * d).sum(1), (r * r).sum(1), posterior.gain.flatten()  # (U,)
    scores = torch.empty_like(dd)  # filled in place: pieces kept among large buffers would scatter the memory
    rows = max(1, CHUNK // (16 * len(r)))
    for part in (slice(i, i + rows) for i in range(0, len(r), rows)):
        c = posterior.covariance[part] * gain[part, None]  # (rows, U)
        squares = (2 * r[part] @ d.T).addcmul_(c, rr[part, None]).mul_(c).add_(dd)
        scores[part] = squares.clamp_(min=0).sqrt_().sum(1)
    return scores


def mlmoc_flips(posterior: Posterior, pseudo_labels: Tensor, reference: Tensor | None = None) -> Tensor:
    """How many candidates change their class, as the released code has it instead of (2.13); float64 (U,)."""
    reference = posterior.mean if reference is None else reference
    every = torch.arange(len(pseudo_labels))
    return _each(posterior, every, every, pseudo_labels, lambda outputs: flips(outputs, reference))


def emoc(posterior: Posterior, probabilities: Tensor, reference: Tensor | None = None) -> Tensor:
    """Expected model output change: `mlmoc` averaged over labels by `probabilities` (U, O) (2.3); (U,)."""
    eye = torch.eye(probabilities.shape[1]).to(probabilities)
    if posterior.full:
        reference = posterior.mean if reference is None else reference
        return _expected(posterior, probabilities, lambda outputs: distance(outputs, reference))
    if reference is None:
        norms = (eye - posterior.mean[:, None]).norm(dim=2)  # |y - f_lin(x')|, (U, O)
        return (probabilities * norms).sum(1) * _spread(posterior)
    labels = (label.expand_as(probabilities) for label in eye)
    return sum(p * mlmoc(posterior, label, reference) for p, label in zip(probabilities.T, labels, strict=True))


def eer(posterior: Posterior, probabilities: Tensor, risk: str = "entropy") -> Tensor:
    """Minus the expected error after a label drawn from `probabilities` (U, O) (2.2); (U,).

    The error is the sum over candidates of the "entropy" of their classes (text), or of 1 - "max" probability (released
    code). Outputs become probabilities by projection on the simplex, as in the released code.
    """
    if risk not in RISKS:
        raise UserError(f"risk {risk!r} must be one of {sorted(RISKS)}")

    def error(outputs: Tensor) -> Tensor:  # (n, U, O) -> (n,)
        return RISKS[risk](simplex(outputs.flatten(0, 1))).view(outputs.shape[:2]).sum(1)

    return -_expected(posterior, probabilities, error)


RISKS = {"entropy": lambda p: torch.special.entr(p).sum(1), "max": lambda p: 1 - p.max(1).values}  # (N, O) -> (N,)


def distance(outputs: Tensor, reference: Tensor) -> Tensor:
    """sum_x |outputs(x) - reference(x)|_2; (..., U, O) -> (...)."""
    return (outputs - reference).norm(dim=-1).sum(-1)


def flips(outputs: Tensor, reference: Tensor) -> Tensor:
    """How many rows have their largest entry elsewhere; (..., U, O) -> (...)."""
    return (outputs.argmax(-1) != reference.argmax(-1)).sum(-1).to(outputs.dtype)


def block(k_ll: Tensor, k_ul: Tensor, k_uu: Tensor, residual: Tensor, prior: Tensor, printed: bool = False) -> Ahead:
    """The thesis' block formula (2.12), one candidate at a time: `block(...)(i, y)` is (U, O). Scalar kernels only.

    v is K_LL^-1 K_Lx'; the thesis forgets the inverse, and so does this if `printed`, which is wrong.
    """
    _check(k_ll, k_ul, k_uu, residual, prior)
    if len(k_ll) != len(residual):
        raise UserError("(2.12) is for scalar kernels: use resolve or posterior with a full one")
    factor, jitter, _ = _factor(k_ll, k_uu)
    floor = _floor(k_uu, len(prior), jitter)
    f_lin = prior + k_ul @ torch.cholesky_solve(residual, factor)  # (2.11)

    def ahead(i: int, y: Tensor) -> Tensor:
        k_lx = k_ul[i, :, None]  # (L, 1)
        v = k_ll @ k_lx if printed else torch.cholesky_solve(k_lx, factor)
        u = k_uu[i, i] - k_lx.mT @ v  # (1, 1)
        if not printed and u <= floor[i]:
            return f_lin
        return f_lin + (k_ul @ v - k_uu[i, :, None]) @ (v.mT @ residual - (y - prior[i])) / (u + jitter)  # (2.12)

    return ahead


def resolve(k_ll: Tensor, k_ul: Tensor, k_uu: Tensor, residual: Tensor, prior: Tensor) -> Ahead:
    """(2.11) solved anew for each candidate, without (2.12): `resolve(...)(i, y)` is (U, O). Any kernel; slow."""
    _check(k_ll, k_ul, k_uu, residual, prior)
    factor, jitter, _ = _factor(k_ll, k_uu)
    n, s = len(k_ll), len(k_ll) // len(residual)
    floor = _floor(k_uu, len(prior), jitter)
    f_lin = prior + (k_ul @ torch.cholesky_solve(residual.reshape(n, -1), factor)).reshape(prior.shape)
    matrix = torch.empty(n + s, n + s).to(k_ll)
    matrix[:n, :n] = k_ll
    matrix[:n, :n].diagonal().add_(jitter)

    def ahead(i: int, y: Tensor) -> Tensor:
        rows = slice(i * s, (i + 1) * s)
        matrix[n:, :n], matrix[:n, n:], matrix[n:, n:] = k_ul[rows], k_ul[rows].mT, k_uu[rows, rows]
        matrix[n:, n:].diagonal().add_(jitter)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        corner = factor[n:, n:]  # its square is S[x_i, x_i] + jitter
        if failed or torch.linalg.eigvalsh(corner @ corner.mT)[0] - jitter <= floor[i]:
            return f_lin
        rhs = torch.cat([residual, (y - prior[i])[None]]).reshape(n + s, -1)
        weights = torch.cholesky_solve(rhs, factor)
        return prior + (k_ul @ weights[:n] + k_uu[:, rows] @ weights[n:]).reshape(prior.shape)

    return ahead


def one_by_one(ahead: Ahead, labels: Tensor, value: Callable[[Tensor], Tensor]) -> Tensor:
    """`value` of the outputs (U, O) after each candidate gets its label vector, in a loop over candidates; (U,)."""
    return torch.stack([value(ahead(i, y)) for i, y in enumerate(labels)])


def _spread(posterior: Posterior) -> Tensor:
    """sum_x |S[x, x']| / S[x', x'] of a scalar kernel; (U,)."""
    return torch.linalg.vector_norm(posterior.covariance, 1, dim=1) * posterior.gain.flatten()


def _outputs(posterior: Posterior, which: Tensor, labels: Tensor) -> Tensor:
    """f_{L + (x', y')} on all candidates, for each x' = candidate `which` (n,) with label vector (n, O); (n, U, O)."""
    s, points = posterior.covariance, len(posterior.mean)
    gain = posterior.gain[which]  # (n, s, s)
    step = gain @ (labels - posterior.mean[which]).unflatten(1, (gain.shape[1], -1))  # (n, s, O / s)
    change = s.view(points, -1, len(s))[which].mT @ step  # (n, m, O / s)
    return posterior.mean + change.reshape(len(which), *posterior.mean.shape)


def _each(posterior: Posterior, which: Tensor, label: Tensor, labels: Tensor, value: Callable) -> Tensor:
    """`value` (n, U, O) -> (n,) of the outputs after candidate `which` (n,) gets row `label` (n,) of `labels`."""
    chunk = max(1, CHUNK // (8 * len(posterior.covariance) * posterior.mean.shape[1]))
    values = torch.empty(len(which)).to(labels)  # filled in place, as in `mlmoc`
    for part in (slice(i, i + chunk) for i in range(0, len(which), chunk)):
        values[part] = value(_outputs(posterior, which[part], labels[label[part]]))
    return values


def _expected(posterior: Posterior, probabilities: Tensor, value: Callable) -> Tensor:
    """sum_y p(y | x') value(f_{L + (x', y)}), over the labels that have a probability; (U,)."""
    which, label = probabilities.nonzero(as_tuple=True)
    values = _each(posterior, which, label, torch.eye(probabilities.shape[1]).to(probabilities), value)
    return torch.zeros(len(probabilities)).to(values).index_add_(0, which, probabilities[which, label] * values)


def _factor(k_ll: Tensor, k_uu: Tensor) -> tuple[Tensor, float, bool]:
    """Cholesky factor of K_LL + jitter I, the jitter, and whether it had to grow."""
    rule = JITTER["relative"]
    jitter = least = rule(k_ll) or rule(k_uu) or 1.0  # a kernel that is 0 on the labelled points, or everywhere
    while True:
        firm = k_ll.clone()
        firm.diagonal().add_(jitter)
        factor, failed = torch.linalg.cholesky_ex(firm)
        if not failed:
            return factor, jitter, jitter > least
        jitter *= 10
        if not 0 < jitter <= MOST * k_ll.diagonal().mean():
            raise UserError("the labelled points' kernel has negative eigenvalues beyond rounding: it is not a kernel")


def _floor(k_uu: Tensor, points: int, jitter: float) -> Tensor:
    """The least S[x', x'] with which a candidate still changes something; (U,)."""
    return FLOOR * _diagonal(k_uu, points).diagonal(dim1=1, dim2=2).mean(1) + 10 * jitter


def _diagonal(kernel: Tensor, points: int) -> Tensor:
    """The diagonal blocks of a kernel; (points, s, s)."""
    s = len(kernel) // points
    return kernel.unflatten(1, (points, s)).unflatten(0, (points, s)).diagonal(dim1=0, dim2=2).movedim(-1, 0)


def _check(k_ll: Tensor, k_ul: Tensor, k_uu: Tensor, residual: Tensor, prior: Tensor) -> None:
    if {part.dtype for part in (k_ll, k_ul, k_uu, residual, prior)} != {torch.float64}:
        raise UserError("look-ahead divides by small differences: pass kernels and outputs in float64")
    check(k_ll, k_ul, residual)
    (points, outputs), s = prior.shape, len(k_ll) // max(1, len(residual))
    fits = s in (1, outputs) and len(k_ll) == s * len(residual) and residual.shape[1] == outputs
    if not fits or len(k_ul) != s * points or k_uu.shape != (s * points, s * points):
        shapes = [tuple(part.shape) for part in (k_ll, k_ul, k_uu, residual, prior)]
        raise UserError(f"K_LL, K_UL, K_UU, residual (L, O) and prior (U, O) do not fit each other: {shapes}")
    if not torch.isfinite(residual).all() or not torch.isfinite(prior).all():
        raise UserError("labels or network outputs contain NaN or infinity")
