"""What the look-ahead strategies share: what is known given a kernel on all images, and the objectives by name."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.core.progress import counter
from bench.kernels.lookahead import (
    RISKS,
    Posterior,
    distance,
    eer,
    emoc,
    flips,
    mlmoc,
    mlmoc_flips,
    posterior,
    resolve,
)
from bench.learn.probability import simplex
from bench.strategies import Query

BUDGET = 2**30  # bytes for empirical kernels; fixed, since tiles cut to what memory is free change the last digits


def one_hot(labels: Tensor, outputs: int) -> Tensor:
    return F.one_hot(labels, outputs).double()  # (N, O)


def _decided(f: Tensor) -> Tensor:
    """Pseudo-labels y' = argmax f(x'), one-hot (U, O)."""
    return one_hot(f.argmax(1), f.shape[1])


# (posterior, f (U, O), reference (U, O) or None) -> scores (U,), larger is better. f gives the pseudo-labels and, by
# projection on the simplex as in the released code, p(y | x'); distances are from the reference, or from f_lin.
OBJECTIVES: dict[str, Callable[[Posterior, Tensor, Tensor | None], Tensor]] = {
    "mlmoc": lambda state, f, reference: mlmoc(state, _decided(f), reference),  # (2.13)
    "flips": lambda state, f, reference: mlmoc_flips(state, _decided(f), reference),  # the released code's MLMOC
    "emoc": lambda state, f, reference: emoc(state, simplex(f), reference),  # (2.3)
    "eer": lambda state, f, reference: eer(state, simplex(f), "entropy"),  # (2.2)
    "eer-max": lambda state, f, reference: eer(state, simplex(f), "max"),  # the released code's EER
}


def images(query: Query) -> Tensor:
    """Labelled images, then candidates, float64 (L + U, C, H, W): the order of every kernel here."""
    return torch.cat([query.labelled_images, query.candidates]).double()


def split(query: Query, kernel: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """K(L, L), K(U, L) and K(U, U) of a kernel on `images(query)`; views, for scalar and full kernels alike."""
    labelled, candidates = len(query.labelled_images), len(query.candidates)
    n = len(kernel) // (labelled + candidates) * labelled
    return kernel[:n, :n], kernel[n:, :n], kernel[n:, n:]


def known(query: Query, kernel: Tensor, prior: Tensor) -> Posterior:
    """The posterior given the labels, from the kernel and prior mean (L + U, O) on `images(query)`; leaves notes."""
    state = posterior(*split(query, kernel), *_unfitted(query, prior))
    # Four digits: enough for people, and the last ones depend on the number of threads
    query.notes |= {"condition": float(f"{state.condition:.4g}"), "jitter": float(f"{state.jitter:.4g}")}
    if state.warning:
        query.notes["warning"] = state.warning
    return state


def resolved(query: Query, kernel: Tensor, prior: Tensor, objective: str, reference: Tensor | None) -> Tensor:
    """What `OBJECTIVES` give, (U,), by one (L + 1) x (L + 1) solve for every candidate and label that is possible."""
    state = known(query, kernel, prior)  # for its notes, and f_lin
    ahead = resolve(*split(query, kernel), *_unfitted(query, prior))
    reference = state.mean if reference is None else reference
    value = {
        "mlmoc": lambda outputs: distance(outputs, reference),
        "flips": lambda outputs: flips(outputs, reference),
        "emoc": lambda outputs: distance(outputs, reference),
        "eer": lambda outputs: -RISKS["entropy"](simplex(outputs)).sum(),
        "eer-max": lambda outputs: -RISKS["max"](simplex(outputs)).sum(),
    }[objective]
    f = prior[len(query.labelled_images) :]
    p = _decided(f) if objective in ("mlmoc", "flips") else simplex(f)  # (U, O)
    labels, scores, pairs = torch.eye(p.shape[1]).to(p), torch.zeros_like(p[:, 0]), p.nonzero().tolist()
    with counter("  solved", len(pairs), shown=len(pairs) > 1000) as (tick, _):
        for i, y in pairs:
            scores[i] += p[i, y] * value(ahead(i, labels[y]))
            tick()
    return scores


def _unfitted(query: Query, prior: Tensor) -> tuple[Tensor, Tensor]:
    """Y - f(L) (L, O) and f(U) (U, O), from f on `images(query)`."""
    labelled = len(query.labelled_labels)
    return one_hot(query.labelled_labels, prior.shape[1]) - prior[:labelled], prior[labelled:]
