"""The empirical neural tangent kernel of a net, Theta(X1, X2) = J(X1) J(X2)^T, exactly, in tiles under a byte budget.

    theta = gram(net, x)                                        (N O, N O), thesis (3.1): entry [n O + o, m O + p]
    theta = gram(net, x_test, x, output="pseudo")               (N1, N2), the pNTK, thesis (3.2)
    theta = gram(net, x, layers=["head"], out="theta.npy")      the read-out layer alone, streamed to a file
    gram(net, x, out="theta.npy", part=(k, 4))                  a quarter of it, for four processes; then without part

How: `tangents` takes the gradients of the outputs with respect to what every layer returns; `layers`, `convolution`,
`tail` and `norm` turn them into each layer's share of Theta. Points are cut into tiles such that what is kept of two
tiles fits the budget; what was kept of earlier tiles stays as long as there is room, and is computed again if not.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from bench.core import memory
from bench.core.errors import UserError
from bench.core.progress import counter
from bench.kernels.layers import Kept
from bench.kernels.pages import keep_pages
from bench.kernels.parts import check, share
from bench.kernels.store import Store, identity
from bench.kernels.tangents import Tangents


def gram(
    net: nn.Module,
    x1: Tensor,
    x2: Tensor | None = None,
    *,
    output: str | int = "full",
    layers: Sequence[str] | None = None,
    budget: int | None = None,
    out: str | Path | None = None,
    part: tuple[int, int] | None = None,
    progress: bool = False,
) -> Tensor | None:
    """Theta(x1, x2), or the symmetric Theta(x1, x1) of which only one half is computed, over all trainable parameters.

    output    "full": rows n O + o, all outputs with all (thesis 3.1). One row per point: "pseudo", the gradient of
              sum_o f_o / sqrt(O) (thesis 3.2); "first", of f_0; a number k, of f_k; "trace", sum_o Theta[no, mo]
    layers    modules by name, containers with all they hold; everything by default
    budget    bytes beside the result; by default a quarter of the memory that it leaves free
    out       a .npy file, written tile by tile and continued after a kill, with the tiles it began with; the result is
              then a copy-on-write map of it
    part      (k, of), k from 0: only the tiles that fall to the k-th of so many processes, which may run at once, on
              one machine or on several that share the folder of `out`. Returns None; the same call without `part`
              puts together what parts have finished, and computes the rest
    progress  a bar, or lines in a log

    dtype and device are those of the parameters; a map is on the CPU. Results depend on budget, tiles and threads only
    by rounding: by at most 1e-13 of the largest entry in float64 and 5e-6 in float32, where an activation so near to a
    kink that rounding decides its sign may add to that. With equal budgets and threads, parts give the same bytes as
    one process. On CUDA, torch by default rounds convolutions in float32 to ten bits (torch.backends.cudnn.allow_tf32);
    the suite's own runs turn that off.
    """
    if part is not None:
        check(part, out)
    keep_pages()
    tangents = Tangents(net, x1, x2, output, layers)
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    s, like = tangents.rows, tangents.like
    shape = (n1 * s, n2 * s)
    if budget is None:
        budget = default_budget(like.device, 0 if out else math.prod(shape) * like.element_size())
    tile = tangents.plan(budget, max(n1, n2), x2 is None, out is not None)
    store = theta = None
    if out is not None:
        store = Store(Path(out), identity(net, x1, x2, output, layers), tile, s, symmetric=x2 is None)
        tile = store.tile
    else:
        theta = like.new_zeros(shape)
    todo = [(i, j) for i in range(0, n1, tile) for j in range(i if x2 is None else 0, n2, tile)]
    if part is not None:
        todo = [ij for ij in share(todo, tile, (n1, n2), x2 is None, part) if not store.has_aside(*ij)]
    elif store:
        store.open(shape, like.dtype)
    todo = [ij for ij in todo if store is None or ij not in store.done]
    with counter("  kernel", len(todo) * len(tangents.layers), progress) as (tick, more):
        memory = Memory(tangents, x1, x2, tile, tick, more)
        for i, j in _there_and_back(todo):
            block = (slice(i * s, (i + tile) * s), slice(j * s, (j + tile) * s))
            size = (min(tile, n1 - i) * s, min(tile, n2 - j) * s)
            some = like.new_zeros(size) if store else theta[block]
            tangents.add(some, memory.left(i), memory.right(j), tick)  # no name for them: memory must be free to forget
            if x2 is None and i == j:
                mirror(some)
            if part is not None:
                store.set_aside(i, j, some)
            elif store:
                store.put(i, j, some)
            elif x2 is None and i != j:
                theta[block[1], block[0]] = some.T
            del some  # before there is another
    if part is not None:
        return None
    return store.close() if store else theta


def flops(
    net: nn.Module,
    x1: Tensor,
    x2: Tensor | None = None,
    *,
    output: str | int = "full",
    layers: Sequence[str] | None = None,
) -> int:
    """What `gram` must compute if all fits one tile: passes through these layers, and their shares of Theta by the ways
    chosen, of a symmetric Theta half.
    """
    tangents = Tangents(net, x1, x2, output, layers)
    return tangents.passes + sum(layer.flops() for layer in tangents.layers)


class Memory:
    """What was kept of the tiles used last, as many as the budget allows."""

    def __init__(self, tangents: Tangents, x1: Tensor, x2: Tensor | None, tile: int, tick: Callable, more: Callable):
        self.tangents, self.tile, self.tick, self.more = tangents, tile, tick, more
        self.most = tangents.remembered(tile)
        self.sides = (x1, x1 if x2 is None else x2)
        self.right_side = 0 if x2 is None else 1
        self.held: dict[tuple[int, int], list[Kept]] = {}

    def left(self, start: int) -> list[Kept]:
        return self._get(0, start)

    def right(self, start: int) -> list[Kept]:
        return self._get(self.right_side, start)

    def _get(self, side: int, start: int) -> list[Kept]:
        kept = self.held.pop((side, start), None)
        if kept is None:
            while len(self.held) >= self.most:
                del self.held[next(iter(self.held))]  # the one used longest ago
            x = self.sides[side][start : start + self.tile]
            self.more(-(-len(x) // self.tangents.batch))
            kept = self.tangents.keep(x, self.tick)
        self.held[side, start] = kept
        return kept


def mirror(theta: Tensor, size: int = 256) -> None:
    """Copy the part above the diagonal to the part below, in blocks that stay in the caches."""
    for i in range(0, len(theta), size):
        diagonal = theta[i : i + size, i : i + size]
        diagonal.copy_(diagonal.triu() + diagonal.triu(1).T)
        theta[i + size :, i : i + size] = theta[i : i + size, i + size :].T


def default_budget(device: torch.device, result: int) -> int:
    """A quarter of the memory that a result of so many bytes leaves free."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else memory.free_memory()
    if result > free:
        sizes = f"{result / 2**30:.1f} GiB, {free / 2**30:.1f} are free"
        raise UserError(f'the kernel takes {sizes}; stream it to a file: gram(..., out="theta.npy")')
    return (free - result) // 4


def _there_and_back(tiles: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Every other row of tiles backwards: its first tiles are those that the row before used last."""
    rows = sorted({i for i, _ in tiles})
    return sorted(tiles, key=lambda ij: (ij[0], ij[1] * (-1) ** rows.index(ij[0])))
