"""DARP's refinement of the pseudo-labels of a whole pool, beside the released way: vectorised, and as a plain loop."""

import math
from dataclasses import dataclass

from torch import Tensor, randn

from bench.core.seeds import torch_stream
from bench.learn import darp
from bench.tools.perf import quiet

CONTENDERS = ("newton", "released", "plain loop")
ROUNDS = 10  # of the released way, as `darp.coordinate_ascent` has them
UPDATES = 100  # of a column by the plain loop that are timed, in whole rounds; 50,000 x 100 would take a minute
BISECTIONS = 40


@dataclass(frozen=True)
class Refresh:
    rows: int
    classes: int
    threads: int = 1
    group: str = "darp"


def said(rows: int, classes: int) -> Tensor:
    """What a network says that is often sure and prefers some classes to others, (N, K), in float32 as in training."""
    generator = torch_stream(0, "labels")
    return (5 * randn(rows, classes, generator=generator) + randn(classes, generator=generator)).softmax(1)


def plain_loop(a: Tensor, w: Tensor, q: Tensor, rounds: int = ROUNDS) -> Tensor:
    """X (N, K) by the released way, `darp.coordinate_ascent`, column after column and with a bisection for each nu_k.

    Rows sum to one exactly, columns to `q` (K,) only nearly.
    """
    nu = [0.0] * len(q)
    for _ in range(rounds):
        factors = 1 / _tilted(a, w, nu).sum(1)  # (N,)
        nu = [_bisected(a[:, k] * factors, w, float(q[k]), nu[k]) for k in range(len(q))]
    x = _tilted(a, w, nu)
    return x / x.sum(1, keepdim=True)


def _tilted(a: Tensor, w: Tensor, nu: list[float]) -> Tensor:
    """A_nk exp(-nu_k / w_n), (N, K)."""
    return a * (-a.new_tensor(nu) / w[:, None]).exp()


def _bisected(column: Tensor, w: Tensor, wanted: float, start: float) -> float:
    """The nu at which sum_n column_n exp(-nu / w_n), which falls, is what is wanted."""

    def above(nu: float) -> bool:
        return bool((column * (-nu / w).exp()).sum() > wanted)

    low, high = start - 1, start + 1
    while not above(low):
        low -= high - low
    while above(high):
        high += high - low
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) else (low, middle)
    return (low + high) / 2


def turn(case: Refresh) -> dict[str, dict]:
    """Every contender's time, and by how much the sum of a column is off, as a share of what it should be, at most.

    The plain loop is spared noise removal. Timed on some of its rounds, it has no result. On several threads there are
    no peers: where others use a core, too, threads wait for each other, and times say more of them than of the work.
    """
    p, q = said(case.rows, case.classes), darp.uniform(case.rows, case.classes)
    a = darp.denoised(p.double(), q, 2.0)
    w, rounds = darp.weights(a), min(ROUNDS, max(1, UPDATES // case.classes))
    works = (
        lambda: darp.refine(p, q),
        lambda: darp.refine(p, q, solver="released"),
        lambda: plain_loop(a, w, q, rounds),
    )
    found = {}
    for name, work in list(zip(CONTENDERS, works, strict=True))[: 1 if case.threads > 1 else None]:
        results, count = [], rounds if name == "plain loop" else ROUNDS
        timing = quiet.timed(lambda work=work, results=results: results.append(work()))
        for seconds in ("seconds", "processor_seconds"):
            timing[seconds] *= ROUNDS / count
        off = float((results[-1].double().sum(0) / q - 1).abs().max()) if count == ROUNDS else math.nan
        found[name] = timing | {"count": ROUNDS, "sample": count, "off": off}
    return found
