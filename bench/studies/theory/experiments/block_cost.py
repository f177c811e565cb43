"""Looking ahead costs U^2 P, for the kernel of the candidates with each other, and not only L U P + L^2 P.

Statement: with L labelled points, U candidates and P parameters, all look-aheads by (2.12) take O(L U P + L^2 P).
Where: thesis 2.2, time complexity, and Algorithm 1, which computes the blocks (U, L) and (L, L) only.
Refuted by: work that grows faster than U. (2.12) needs K(x, x') for every candidate x' and every x of the pool on which
outputs are compared (2.13): the block (U, U), U^2 P.

Counted are floating-point operations of the three blocks, not seconds: `explicit` multiplies Jacobians of a two-layer
net and counts what torch does; `fcn` and `wrn` are the counts of the suite's own engine, which takes a layer's share of
the kernel without forming Jacobians, so that its U^2 comes with a factor far below P.
"""

import torch
from torch.utils.flop_counter import FlopCounterMode

from bench.kernels.empirical import flops
from bench.nets import build, fcn, wrn  # noqa: F401  # named below; so that the digest covers them
from bench.studies.theory.experiments import _two_layers
from bench.studies.theory.task import Task

SETTINGS = ("explicit", "fcn", "wrn")
COLUMNS = ("U", "L", "P", "per_label", "ll", "ul", "uu", "stated", "total", "omitted")
SHAPE, CLASSES, WIDTHS = (1, 8, 8), 10, {"fcn": 64, "wrn": 32}


def parts(sizes: dict) -> list[dict]:
    return [{"U": u} for u in sizes["pools"]]


def measure(task: Task, part: dict) -> list[dict]:
    count = explicit if task.setting == "explicit" else engine
    ll, ul, uu, p = count(task, task.sizes["labelled"], part["U"])
    row = {"L": task.sizes["labelled"], "P": p, "per_label": part["U"] / task.sizes["labelled"]}
    row |= {"ll": ll, "ul": ul, "uu": uu}
    return [row | {"stated": ll + ul, "total": ll + ul + uu, "omitted": uu / (ll + ul + uu)}]


def explicit(task: Task, labelled: int, pool: int) -> tuple[int, int, int, int]:
    """Operations of J_L J_L^T, J_U J_L^T and J_U J_U^T, and the number of parameters."""
    m, d = task.sizes["width"], task.sizes["d"]
    net = _two_layers.draw(m, d, "relu", task.torch_draw("block-cost", "net"), task.device)
    x = torch.randn(labelled + pool, d, generator=task.torch_draw("block-cost", pool), dtype=torch.float64)
    j = jacobian(net, x.to(task.device))  # (L + U, P)
    counts = []
    for left, right in ((j[:labelled], j[:labelled]), (j[labelled:], j[:labelled]), (j[labelled:], j[labelled:])):
        with FlopCounterMode(display=False) as counter:
            left @ right.mT
        counts.append(counter.get_total_flops())
    return *counts, j.shape[1]


def jacobian(net: _two_layers.Net, x: torch.Tensor) -> torch.Tensor:
    """d f(x_n) / d (W, a), (n, m d + m)."""
    one = torch.ones(1, dtype=x.dtype, device=x.device)
    rows = (net.gradient(point[None], one) for point in x)
    return torch.stack([torch.cat([w.flatten(), a]) for w, a in rows])


def engine(task: Task, labelled: int, pool: int) -> tuple[int, int, int, int]:
    """The same three blocks by `gram`, of the first output as in thesis 2.2."""
    net = build(task.setting, SHAPE, CLASSES, WIDTHS[task.setting], task.torch_draw("block-cost", "net"))
    net = net.double().eval()
    x_l, x_u = (torch.zeros(n, *SHAPE, dtype=torch.float64) for n in (labelled, pool))
    blocks = ((x_l, None), (x_u, x_l), (x_u, None))
    return *(flops(net, *block, output="first") for block in blocks), sum(p.numel() for p in net.parameters())
