"""What each layer adds to Theta = J J^T, and at what price.

Parameters split by layer, so Theta is a sum over layers of J_l J_l^T, (N S) x P_l times its transpose. A layer sees an
input a and has an output z; for one point, the row of J_l that belongs to an output f_o follows from a and the gradient
g = df_o/dz alone. Weight gradients summed over a batch, what training uses, are never formed.

Rows. Of B backward vectors v_b the gradients of v_b . f(x) are taken. Either each is a row of its own (full eNTK: B = O
unit vectors, S = B rows per point; pNTK or one output: S = B = 1), or all B of a point lie end to end in one row, and
Theta is their sum of inner products (trace: S = 1, B = O). Both are the same memory read as B = S x M, with M = 1 or B:
channels of one row are counted M C below.

A layer type is one class: what it keeps of each point (`room`), how it gets that from a and g (`keep`), and, unless
it keeps rows of J, how kept tensors become a block of Theta (`add`). It is entered in `tangents.LAYERS`.
Convolutions and batch norm have modules of their own; which convolution is a `ConvTail`, the net decides.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bench.core.errors import UserError

Kept = list[Tensor]  # what a layer keeps of some points, the points along the first axis of each tensor
Take = Callable[[Tensor], None]  # of the gradients of n points for all backward vectors, (B, n, *z)

FEW_COLUMNS = 512  # rows of J narrower than this are joined before their Gram matrix: it is memory-bound below
LONGEST = 12288  # columns of J in one product, at most
SIDE, BLOCK = 2048, 64  # rows of a block of Theta, at most; and down to how many those on the diagonal are halved
SMALL = 512  # rows of a Theta, at most, for which cores share the columns of J
STRIPS, STRIP, PIECE = 4, 64, 1024  # of such a Theta: strips, at most; rows of one, columns in a product, at least


@dataclass(frozen=True)
class Site:
    """Where a layer sits: its module, the shapes of a and z at one point, how rows are made of backward vectors."""

    name: str
    module: nn.Module
    a: tuple[int, ...]
    z: tuple[int, ...]
    backwards: int  # B
    rows: int  # S
    points: int  # N, or N1 + N2
    pairs: int  # of points, that Theta has blocks for: N (N + 1) / 2, or N1 N2
    like: Tensor  # an empty tensor of the net's dtype and device
    shared: dict[tuple, Tensor]  # scratch memory, for layers in turn

    @property
    def where(self) -> str:
        return f"{self.name} ({type(self.module).__name__})"

    def trains(self, parameter: str) -> bool:
        tensor = getattr(self.module, parameter, None)
        return tensor is not None and tensor.requires_grad

    def empty(self, *shape: int) -> Tensor:
        return self.like.new_empty(shape)

    def scratch(self, name: str, *shape: int) -> Tensor:
        """Memory used again by every layer in turn: new pages would cost more than the products written to them."""
        size = math.prod(shape)
        if len(self.shared.get((name,), ())) < size:
            self.shared[(name,)] = self.empty(size)
        return self.shared[(name,)][:size].view(shape)


class Layer:
    """One layer's share of Theta."""

    def __init__(self, site: Site):
        self.site = site
        self.weight, self.bias = site.trains("weight"), site.trains("bias")

    def room(self) -> list[tuple[int, ...]]:
        """Shapes of the tensors kept of each point."""
        raise NotImplementedError

    def temporaries(self) -> int:
        """How many numbers a point of a batch takes while this layer works, beside what is kept."""
        return 0

    def flops(self) -> int:
        """Of this layer's share of Theta, given all a and g."""
        raise NotImplementedError

    def prepare(self, workspace: int) -> None:
        """Told once, before any points come: the bytes there are for temporaries."""

    def keep(self, a: Tensor, kept: Kept) -> Take | None:
        """Given the inputs a (n, *a) of n points: what to do with their gradients so that `kept` is filled."""
        raise NotImplementedError


class Rows(Layer):
    """A layer that keeps its rows of J, in pieces (S, columns) of some columns each: Theta gains piece piece^T."""

    def flops(self):
        """Each of the columns costs 2 S^2 per pair; forming thin rows costs next to nothing."""
        return self.site.pairs * 2 * self.site.rows * sum(math.prod(piece) for piece in self.room())


class Contracted(Layer):
    """A layer whose share of Theta is had without its rows of J, or with few of their columns at a time."""

    def add(self, theta: Tensor, left: Kept, right: Kept) -> None:
        """theta (N1 S, N2 S) += this layer's share; where right is left, only on and above the diagonal of theta."""
        raise NotImplementedError


def add_rows(theta: Tensor, left: list[Tensor], right: list[Tensor]) -> None:
    """theta += J J'^T for rows of J given in pieces (N, S, columns); narrow pieces are joined first."""
    wide = [(u, v) for u, v in zip(left, right, strict=True) if u[0, 0].numel() >= FEW_COLUMNS]
    narrow = [(u, v) for u, v in zip(left, right, strict=True) if u[0, 0].numel() < FEW_COLUMNS]
    if narrow:
        us, vs = zip(*narrow, strict=True)
        joined = torch.cat(us, 2)  # (N1, S, columns)
        wide.append((joined, joined if vs[0] is us[0] else torch.cat(vs, 2)))
    for u, v in wide:
        add_gram(theta, u.flatten(0, 1), v.flatten(0, 1), symmetric=u is v)


def add_gram(theta: Tensor, left: Tensor, right: Tensor, symmetric: bool) -> None:
    """theta += left right^T; of a symmetric one only what lies on and above the diagonal, half the work.

    LONGEST columns are summed at a time, apart from theta: one float32 product over 10^5 columns, or addmm_ to a theta
    that is large beside the terms, loses a digit.
    """
    if max(theta.shape) <= SMALL:
        return _add_small_gram(theta, left, right, symmetric)
    side = -(-evenly(max(theta.shape), SIDE) // BLOCK) * BLOCK  # easy to halve
    memory = theta.new_empty(side * side)  # once: new pages are slow
    columns = evenly(left.shape[1], LONGEST)  # at a time
    for k in range(0, left.shape[1], columns):
        u, v = left[:, k : k + columns], right[:, k : k + columns]
        for i, j in blocks(len(left), len(right), symmetric, side, side):
            if symmetric and i == j:
                _add_triangle(theta[i, i], u[i], memory)
            else:
                part = memory[: len(u[i]) * len(v[j])].view(len(u[i]), len(v[j]))
                theta[i, j] += torch.mm(u[i], v[j].T, out=part)


def _add_triangle(theta: Tensor, u: Tensor, memory: Tensor) -> None:
    """theta += u u^T on and above the diagonal: a square of half the rows beside it, two of a quarter, four of an
    eighth and so on, at last those on it. Equal squares are one batched product, faster than one after the other.
    """
    levels = max(1, len(u) // BLOCK).bit_length() - 1
    even = len(u) >> levels << levels
    for level in range(levels + 1):
        rows = u[:even].unflatten(0, (2**level, -1))  # (2^level, n, columns)
        cut = theta[:even, :even].unflatten(1, (2**level, -1)).unflatten(0, (2**level, -1))
        squares = cut.diagonal(0, 0, 2).permute(2, 0, 1)  # (2^level, n, n), on the diagonal
        n = rows.shape[1]
        upper, lower = (slice(n // 2), slice(n // 2, n)) if level < levels else (slice(n), slice(n))
        part = squares[:, upper, lower]
        product = memory[: part.numel()].view(part.shape)
        part += torch.bmm(rows[:, upper], rows[:, lower].mT, out=product)
    if even < len(u):  # rows left over: the last columns
        theta[:, even:] += u @ u[even:].T


def _add_small_gram(theta: Tensor, left: Tensor, right: Tensor, symmetric: bool) -> None:
    """As a sum over pieces of the columns: cores that share the columns are faster than cores that share so few rows.

    Of a symmetric theta in strips from the diagonal to the right end, fewer and wider than blocks.
    """
    columns, cores = left.shape[1], torch.get_num_threads()
    divisors = [k for k in range(max(1, columns // PIECE), 0, -1) if columns % k == 0]
    pieces = next((k for k in divisors if k % cores == 0), divisors[0])  # as many for every core, if that can be
    u, v = (each.unflatten(1, (pieces, -1)).transpose(0, 1) for each in (left, right))  # (pieces, N, columns)
    strip = max(STRIP, -(-len(left) // STRIPS)) if symmetric else len(left)
    for i in range(0, len(left), strip):
        j = i if symmetric else 0
        theta[i : i + strip, j:] += torch.bmm(u[:, i : i + strip], v[:, j:].mT).sum(0)


def evenly(n: int, most: int) -> int:
    """The size of parts into which n things are cut: at most so many in each, as few parts, all alike."""
    return -(-n // -(-n // most))


def blocks(n1: int, n2: int, symmetric: bool, side: int, least: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of blocks, at most `side` long, that cover a matrix or, of a symmetric one, the upper half.

    Those on the diagonal are halved down to `least`: a square beside the diagonal, and two smaller blocks on it.
    Squares make faster products than strips.
    """
    for i in range(0, n1, side):
        for j in range(i if symmetric else 0, n2, side):
            if symmetric and i == j:
                yield from _halves(i, min(i + side, n1), least)
            else:
                yield slice(i, min(i + side, n1)), slice(j, min(j + side, n2))


def _halves(start: int, stop: int, least: int) -> Iterator[tuple[slice, slice]]:
    if stop - start <= least:
        yield slice(start, stop), slice(start, stop)
        return
    middle = (start + stop + 1) // 2
    yield slice(start, middle), slice(middle, stop)
    yield from _halves(start, middle, least)
    yield from _halves(middle, stop, least)


class Linear(Contracted):
    """z = W a + b with a of d numbers, z and g of C (M C in one row), W of C d: row (n, s) of J is the outer product
    g_ns (x) a_n for W, C d numbers, and g_ns for b. Hence

        Theta[ns, mr] = <g_ns (x) a_n, g_mr (x) a_m> + <g_ns, g_mr> = (a_n . a_m + 1) (g_ns . g_mr),

    two small Gram matrices multiplied entry by entry; rows of C d numbers never exist.
    """

    LEAST = 160  # rows of a block on the diagonal: fewer do not pay, products over only M C or d columns are short

    def __init__(self, site: Site):
        super().__init__(site)
        if len(site.a) != 1:
            raise UserError(f"{site.where}: its input has shape (N, {', '.join(map(str, site.a))}); allowed: (N, d)")

    def room(self):
        site = self.site
        return [(site.rows, site.backwards // site.rows * site.z[0]), (site.a[0],)]  # (S, M C) and (d,)

    def keep(self, a, kept):
        kept[1].copy_(a)
        g = kept[0].view(len(a), self.site.backwards, -1)  # (n, B, C)

        def take(gradients):
            g.copy_(gradients.transpose(0, 1))

        return take

    def flops(self):
        (s, c), (d,) = self.room()
        return self.site.pairs * 2 * (s * s * c + d)

    def add(self, theta, left, right):
        n1, n2, s = len(left[0]), len(right[0]), self.site.rows
        theta = theta.view(n1, s, n2 * s)
        side, least = evenly(max(n1, n2), max(1, SIDE // s)), max(1, self.LEAST // s)  # in points; S rows each
        for i, j in blocks(n1, n2, left is right, side, least):
            g1, g2 = left[0][i], right[0][j]  # (n, S, M C), (m, S, M C)
            gg = g1.flatten(0, 1) @ g2.flatten(0, 1).T  # (n S, m S)
            aa = self._inputs(left[1][i], right[1][j])  # (n, m)
            aa = aa.repeat_interleave(s, 1) if s > 1 else aa  # (n, m S): as long as rows of gg, for long inner loops
            theta[i, :, j.start * s : j.stop * s].addcmul_(gg.view(len(g1), s, -1), aa[:, None])

    def _inputs(self, a1: Tensor, a2: Tensor) -> Tensor:
        """a_n . a_m + 1, or the one of the two terms whose parameter is trained."""
        aa = a1 @ a2.T if self.weight else a1.new_zeros(len(a1), len(a2))
        return aa + 1 if self.bias else aa


class Readout(Linear):
    """The layer whose output is f itself: g_ns is the backward vector, the same for all points, and needs no backward.

    Theta[ns, mr] = (phi_n . phi_m + 1) (v_s . v_r),    for the full eNTK (phi phi^T + 1) kron I_O.
    """

    def __init__(self, site: Site, vectors: Tensor):
        super().__init__(site)
        rows = vectors.reshape(site.rows, -1)  # (S, M O)
        self.outer = rows @ rows.T  # (S, S)

    def room(self):
        return [(self.site.a[0],)]

    def keep(self, a, kept):
        kept[0].copy_(a)

    def flops(self):
        return self.site.pairs * 2 * self.site.a[0]

    def add(self, theta, left, right):
        n1, n2, s = len(left[0]), len(right[0]), self.site.rows
        theta = theta.view(n1, s, n2, s)
        entries = [(one, other, self.outer[one, other].item()) for one, other in self.outer.nonzero().tolist()]
        for i, j in blocks(n1, n2, left is right, SIDE, self.LEAST):
            aa = self._inputs(left[0][i], right[0][j])  # (n, m)
            for one, other, value in entries:  # I_O: the diagonal only
                theta[i, one, j, other].add_(aa, alpha=value)


class PReLU(Rows):
    """z = a where a > 0, else alpha a, in maps (C, T): d/dalpha_c = sum of g_ct a_ct over t with a_ct < 0, C numbers,
    or their sum where there is one alpha for all channels.
    """

    def room(self):
        return [(self.site.rows, self.site.backwards // self.site.rows * self.site.module.num_parameters)]

    def keep(self, a, kept):
        j = kept[0].view(len(a), self.site.backwards, -1)  # (n, B, slopes)
        negative = a.clamp(max=0)

        def take(g):  # (B, n, C) or (B, n, C, H, W)
            sums = (g * negative).flatten(3).sum(3) if g.dim() > 3 else g * negative  # (B, n, C)
            j.copy_((sums if j.shape[2] > 1 else sums.sum(2, keepdim=True)).transpose(0, 1))

        return take
