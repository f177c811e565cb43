"""DARP (Kim et al. 2020): refine pseudo-labels so that their class counts are those of a target.

    A = P without noise: of column k only the top alpha q_k entries, scaled to sum to q_k    `denoised`
    X = argmin sum_n w_n KL(X_n || A_n),  rows of X sum to one, columns to q                 `newton`
    w_n = 1 / H(A_n): rows that are sure of themselves are moved last                        `weights`

For fixed column multipliers nu the rows are X_nk = softmax_k(log A_nk - nu_k / w_n), so the dual is a convex function
of K numbers, F(nu) = sum_n w_n logsumexp_k(log A_nk - nu_k / w_n) + nu.q, with gradient q - (column sums of X) and
Hessian sum_n (diag X_n - X_n X_n^T) / w_n. Newton's method solves it; `coordinate_ascent` is the released way.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from bench.core.errors import UserError

FLOOR = 1e-6  # added to every entry of A, and inside the logarithm of H (released code)
PRECISION = 1e-9  # of Newton's column sums, as a share of the rows
NESTED = 4  # Newton starts from the solution on every fourth row, found in the same way
GROWTH = 10  # a step is at most so many times as long as the multipliers are large
SMALL = 2000  # rows; with fewer there is nothing to save


def uniform(rows: int, classes: int) -> Tensor:
    """The target of NPC section 5: the same count for every class; (K,)."""
    return torch.full((classes,), rows / classes, dtype=torch.double)


def refine(
    p: Tensor, target: Tensor, seen: Tensor | None = None, *, alpha: float = 2.0, solver: str = "newton"
) -> Tensor:
    """Class probabilities `p` (N, K), refined towards the class counts `target` (K,), which sum to N.

    Rows not `seen` (N,) are left out, with the target scaled to the rows seen, and come back uniform. A class with
    target zero gets probability zero.
    """
    if solver not in SOLVERS:
        raise UserError(f"DARP: found the solver {solver!r}; allowed: {', '.join(SOLVERS)}")
    if alpha <= 0:
        raise UserError(f"DARP: found alpha = {alpha:g}; allowed: a number above 0")
    check_target(target, *p.shape)
    refined = torch.full_like(p, 1 / p.shape[1])
    seen = torch.ones(len(p), dtype=torch.bool, device=p.device) if seen is None else seen
    _check_rows(p[seen])
    if seen.any():
        q = target.to(p.device, torch.double) * seen.double().mean()
        a = denoised(p[seen].double(), q, alpha)  # (S, K), S rows seen
        x, wanted = torch.zeros_like(a), q > 0
        x[:, wanted] = SOLVERS[solver](a[:, wanted].log(), weights(a), q[wanted])
        refined[seen] = x.to(p.dtype)
    return refined


def check_target(target: Tensor, rows: int, classes: int) -> None:
    """Refuse what are no class counts of so many rows."""
    if target.shape != (classes,) or not bool((torch.isfinite(target) & (target >= 0)).all()):
        raise UserError(f"DARP: the target has to be {classes} counts >= 0, one per class; found {target.tolist()}")
    total = float(target.double().sum())
    if abs(total - rows) > 1e-6 * rows:
        raise UserError(f"DARP: the target's counts sum to {total:g}, but there are {rows} rows; scale it to {rows}")


def _check_rows(p: Tensor) -> None:
    bad = ~(torch.isfinite(p) & (p >= 0)).all(1)
    if bad.any():
        raise UserError(
            f"DARP: {int(bad.sum())} of {len(p)} rows of probabilities hold NaN, infinite or negative entries; "
            "the network that gave them has diverged: lower its learning rate"
        )


def denoised(p: Tensor, q: Tensor, alpha: float) -> Tensor:
    """A (N, K): of column k the top int(alpha q_k) entries of `p`, at least one, scaled to sum to q_k; others 1e-6."""
    kept = torch.zeros_like(p)
    for k, count in enumerate((alpha * q).int().clamp(1, len(p)).tolist()):
        if q[k] > 0:
            top = p[:, k].topk(count)
            total = top.values.sum()
            if total > 0:
                kept[top.indices, k] = top.values * (q[k] / total)
    kept += FLOOR
    return kept / kept.sum(1, keepdim=True)


def weights(a: Tensor) -> Tensor:
    """w (N,) = 1 / H(A_n), H = -sum_k p ln(p + 1e-6). The 1e-6 can take H below zero; here it is at least 1e-6."""
    entropy = -(a * (a + FLOOR).log()).sum(1)
    return 1 / entropy.clamp(min=FLOOR)


def newton(log_a: Tensor, w: Tensor, q: Tensor) -> Tensor:
    """X (N, K): columns sum to `q` within 1e-9 N."""
    return _rows(log_a, 1 / w, _multipliers(log_a, 1 / w, q))


def _rows(log_a: Tensor, v: Tensor, nu: Tensor) -> Tensor:
    """X (N, K) for multipliers nu (K,); v = 1 / w."""
    return torch.addcmul(log_a, v[:, None], nu[None], value=-1).softmax(1)


def _multipliers(log_a: Tensor, v: Tensor, q: Tensor) -> Tensor:
    """The nu (K,) that minimises F, its last entry zero (F does not change when a constant is added to nu)."""
    n = len(v)
    nu = torch.zeros_like(q)
    if n > SMALL:
        nu = _multipliers(log_a[::NESTED], v[::NESTED], q * (len(v[::NESTED]) / n))
    x = _rows(log_a, v, nu)
    gradient = q - x.sum(0)
    for _ in range(200):  # random problems with weights from 0.2 to 1e6 took 40 at most
        if gradient.abs().max() <= PRECISION * n:
            break
        direction = _direction(x, v, gradient)
        x, gradient, nu = _search(log_a, v, q, nu, gradient, direction)
    return nu


def _direction(x: Tensor, v: Tensor, gradient: Tensor) -> Tensor:
    """Newton's step (K,) of all multipliers but the last, which stays.

    The Hessian is the Laplacian of a graph of classes with links sum_n X_nk X_nl / w_n. Sure and unsure rows give links
    1e12 and more apart, so classes are eliminated without a subtraction (Grassmann, Taksar and Heyman 1985).
    """
    links = ((x * v[:, None]).T @ x).cpu()  # (K, K); its diagonal is not used
    b, shares, totals = -gradient.cpu(), [], []
    for k in range(len(b) - 1):
        later = links[k, k + 1 :]
        totals.append(later.sum().clamp(min=1e-250))
        shares.append(later / totals[k])
        links[k + 1 :, k + 1 :].addr_(later, shares[k])
        b[k + 1 :] += b[k] * shares[k]
    step = torch.zeros_like(b)
    for k in reversed(range(len(b) - 1)):
        step[k] = b[k] / totals[k] + shares[k] @ step[k + 1 :]
    return step.to(gradient.device)


def _search(
    log_a: Tensor, v: Tensor, q: Tensor, nu: Tensor, gradient: Tensor, direction: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Step along the direction to where F, which is convex, is almost flat: X, gradient and nu there."""
    longest = GROWTH * max(nu.abs().max(), 1 / v.max())  # no step at once from the scale of unsure to that of sure rows
    direction = direction * min(1.0, longest / direction.abs().max())
    slope = torch.dot(gradient, direction)
    low, high, t = 0.0, 1.0, 1.0
    for _ in range(40):
        x = _rows(log_a, v, nu + t * direction)
        found = q - x.sum(0)
        ratio = float(torch.dot(found, direction) / slope)  # 1 at the start, 0 at the minimum, then negative
        if -0.1 <= ratio <= 0.5 or (ratio > 0 and t == 1.0):
            break
        low, high = (t, high) if ratio > 0 else (low, t)
        t = (low + high) / 2
    return x, found, nu + t * direction


def coordinate_ascent(log_a: Tensor, w: Tensor, q: Tensor, rounds: int = 10, tolerance: float = 0.1) -> Tensor:
    """X (N, K) by the released way: row factors, then every column's nu_k on its own, 10 times (20 for 100 classes).

    Rows sum to one exactly, columns only nearly. The released secant steps can fail; here log(column sum) = log q_k is
    solved by Newton's method, which cannot: the left side is convex and falls. At most 30 steps, `tolerance` on nu.
    """
    nu = torch.zeros_like(q)
    for _ in range(rounds):
        tilted = log_a - nu / w[:, None]
        base = log_a - tilted.logsumexp(1, keepdim=True)  # log of A_nk times the row's factor
        for _ in range(30):
            tilted = base - nu / w[:, None]
            columns = tilted.logsumexp(0)  # (K,)
            fall = ((tilted - columns).exp() / w[:, None]).sum(0)  # minus the derivative by nu_k
            step = (columns - q.log()) / fall
            nu = nu + step
            if step.abs().max() <= tolerance:
                break
    return (log_a - nu / w[:, None]).softmax(1)


SOLVERS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"newton": newton, "released": coordinate_ascent}
