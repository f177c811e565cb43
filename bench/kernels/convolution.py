"""What a convolution adds to Theta: gradients that are sums over positions, and three ways to take inner products.

Rows of J kept (`ConvRows`), rows of J formed some columns at a time (`ConvFactors`), no rows at all (`ConvGhost`);
`cheapest_convolution` holds the rule. Letters as in `bench.kernels`; M C are the channels of one row, see `layers`.
"""

import math

import torch
from torch import Tensor

from bench.kernels.layers import Contracted, Kept, Layer, Rows, Site, add_gram

# Ghost contractions are GEMMs with a short inner dimension T: they run at about half the rate of the long ones.
SHORT_GEMM = 2.0


class Patches:
    """P^T of a convolution in kh pieces (n, kw C_in, T), one per row of the kernel, by few copies.

    Position (h, w) sees through kernel entry (y, x) the pixel (sh h + y, sw w + x) of the padded input. Sorted into
    planes by x and by row modulo sh, pixels are copied kw times, not kh kw times: row y of the kernel reads all its
    positions, in order, from plane y mod sh, beginning at row y div sh. Borders stay zero from call to call, for all
    layers of one geometry.
    """

    def __init__(self, site: Site):
        conv, self.site = site.module, site
        (self.kh, self.kw), (self.sh, self.sw) = conv.kernel_size, conv.stride
        self.left, _, self.top, _ = conv._reversed_padding_repeated_twice

    def __call__(self, a: Tensor, part: slice | None = None) -> list[Tensor]:
        """From inputs (n, C_in, H, W); of the kw C_in entries only some, if told so. Overwritten by the next call."""
        n, (c_in, h_in, w_in), (_, height, width) = len(a), self.site.a, self.site.z
        rows = height + (self.kh - 1) // self.sh
        key = ("planes", self.kh, self.kw, self.sh, self.sw, self.left, self.top, *self.site.a, *self.site.z[1:])
        if len(self.site.shared.get(key, ())) < n:
            self.site.shared[key] = a.new_zeros(n, self.kw, c_in, self.sh, rows, width)
        planes = self.site.shared[key][:n]
        part = part or slice(0, self.kw * c_in)
        for x in range(part.start // c_in, -(-part.stop // c_in)):
            c = slice(max(part.start - x * c_in, 0), min(part.stop - x * c_in, c_in))  # channels
            to_w, from_w = _inside(x - self.left, self.sw, w_in, width)
            for plane in range(self.sh):
                to_h, from_h = _inside(plane - self.top, self.sh, h_in, rows)
                planes[:, x, c, plane, to_h, to_w] = a[:, c, from_h, from_w]
        planes = planes.flatten(1, 2)[:, part]  # (n, part of kw C_in, sh, rows, width)
        starts = (divmod(y, self.sh) for y in range(self.kh))
        return [planes[:, :, plane, row : row + height].flatten(2) for row, plane in starts]  # views


def _inside(shift: int, stride: int, size: int, count: int) -> tuple[slice, slice]:
    """The k < count for which pixel stride k + shift is one of `size`, and those pixels."""
    first, last = max(0, -(shift // stride)), min(count - 1, (size - 1 - shift) // stride)
    if last < first:
        return slice(0), slice(0)
    return slice(first, last + 1), slice(stride * first + shift, stride * last + shift + 1, stride)


class Convolution(Layer):
    """z_t = W p_t + b at every position t, p_t the patch of a that position sees (D numbers): a linear layer applied T
    times with shared weights, so the gradients add up over positions,

        d/dW = sum_t g_t (x) p_t = G P,    d/db = sum_t g_t,    G = (g_ct) of shape (C, T), P = (p_td) of shape (T, D).

    The subclasses turn this into J J^T in three ways; `cheapest_convolution` chooses.
    """

    def __init__(self, site: Site):
        super().__init__(site)
        self.patches = Patches(site)

    @staticmethod
    def sizes(site: Site) -> tuple[int, int, int]:
        """M C, T and D."""
        c, height, width = site.z
        return site.backwards // site.rows * c, height * width, site.module.weight[0].numel()

    @classmethod
    def flops_of_rows(cls, site: Site) -> int:
        """2 S C D T per point to form rows, 2 S^2 C D per pair for their inner products."""
        s, (c, t, d) = site.rows, cls.sizes(site)
        return 2 * s * c * d * (site.points * t + site.pairs * s)

    @classmethod
    def flops_of_ghost(cls, site: Site) -> int:
        """Per pair 2 T^2 D for H, 2 T^2 S C for V = G H, 2 S^2 C T for inner products with V: see `ConvGhost`."""
        s, (c, t, d) = site.rows, cls.sizes(site)
        return site.pairs * 2 * (t * t * (d + s * c) + s * s * c * t)


class ConvRows(Convolution, Rows):
    """A convolution that keeps its rows of J = [G P, sum_t g_t]: best where S C D is small, in early, large maps."""

    def room(self):
        site = self.site
        (c, _, d), kh = self.sizes(site), site.module.kernel_size[0]
        pieces = [(site.rows, c * d // kh)] * kh if self.weight else []  # (S, M C kw C_in) per kernel row
        return pieces + [(site.rows, c)] * self.bias

    def prepare(self, batch, workspace):
        self.stack = self.site.empty(batch, self.site.backwards, *self.site.z)  # once: new pages are slow

    def keep(self, a, kept):
        n, stacked = len(a), self.stack[: len(a)]  # (n, B, C, H, W)

        def take(b, g):
            stacked[:, b] = g
            if b == self.site.backwards - 1:
                self._form(a, stacked.view(n, -1, *self.site.z[1:]).flatten(2), kept)

        return take if self.site.backwards > 1 else lambda b, g: self._form(a, g.flatten(2), kept)

    def _form(self, a: Tensor, g: Tensor, kept: Kept) -> None:
        """Rows from all gradients of n points, (n, B C, T)."""
        if self.weight:
            for piece, p in zip(kept, self.patches(a), strict=False):
                torch.bmm(g, p.transpose(1, 2), out=piece.view(*g.shape[:2], -1))  # (n, B C, kw C_in)
        if self.bias:
            torch.sum(g, 2, out=kept[-1].view(g.shape[:2]))

    def flops(self):
        return self.flops_of_rows(self.site)


class ConvFactors(Convolution, Contracted):
    """A convolution that keeps the factors G and a, and forms some columns of J = [G P, sum_t g_t] at a time.

    For small maps, T < D, where S C D numbers of J are many more than the S C T of G. The rows of J are still those of
    all points at once, so nothing is computed twice within a tile.
    """

    COLUMNS = 2048  # of J at a time per kernel row, for a Gram matrix at full speed; more as long as they fit in
    CACHE = 2**24  # bytes
    LANES = 16  # patch entries at a time are a multiple of this: a product with 17 columns is slower than one with 32

    def prepare(self, batch, workspace):
        self.workspace = workspace

    def room(self):
        c, t, _ = self.sizes(self.site)
        return [(self.site.rows, c * t), self.site.a]

    def keep(self, a, kept):
        kept[1].copy_(a)
        return self.take_into(kept[0])

    def flops(self):
        return self.flops_of_rows(self.site)

    def add(self, theta, left, right):
        c, t, d = self.sizes(self.site)
        if self.bias:
            sums = [k[0].view(-1, c, t).sum(2) for k in (left, right)]  # (N S, M C)
            add_gram(theta, *sums, symmetric=left is right)
        if self.weight:
            kh = self.site.module.kernel_size[0]
            rows = len(theta) if left is right else sum(theta.shape)
            column = rows * c * kh * theta.element_size()  # bytes, of one patch entry per kernel row
            width = max(self.COLUMNS // c, self.CACHE // column) // self.LANES * self.LANES
            width = max(1, min(max(width, self.LANES), self.workspace // column))
            for start in range(0, d // kh, width):
                part = slice(start, min(start + width, d // kh))
                us = self._columns("left", left, part)
                vs = us if left is right else self._columns("right", right, part)
                for u, v in zip(us, vs, strict=True):
                    add_gram(theta, u, v, symmetric=left is right)

    def _columns(self, side: str, kept: Kept, part: slice) -> Tensor:
        """Columns of J: of each kernel row `part` of the patch entries, for all points; (kh, N S, M C columns)."""
        n, s, kh = len(kept[0]), self.site.rows, self.site.module.kernel_size[0]
        c, t, _ = self.sizes(self.site)
        j = self.site.scratch(side, kh, n, s * c, part.stop - part.start)
        for i in range(0, n, 64):
            g = kept[0][i : i + 64].view(-1, s * c, t)
            for y, p in enumerate(self.patches(kept[1][i : i + 64], part)):  # (64, columns / (M C), T)
                torch.bmm(g, p.transpose(1, 2), out=j[y, i : i + 64])
        return j.view(kh, n * s, -1)


class ConvGhost(Convolution, Contracted):
    """A convolution whose rows of J are never formed: with J_ns = G_ns P_n,

    Theta[ns, mr] = <G_ns P_n, G_mr P_m> = <G_ns, G_mr H>,    H = P_m P_n^T (T x T), + 1 in each entry for b.
    """

    POINTS, ROWS = 16, 1024  # right points, and rows of H, at a time: V and H stay in cache

    def room(self):
        c, t, d = self.sizes(self.site)
        return [(self.site.rows, c * t), (t, d)]

    def keep(self, a, kept):
        p = torch.cat(self.patches(a), 1)  # (n, D, T)
        kept[1].copy_(p.transpose(1, 2))
        return self.take_into(kept[0])

    def flops(self):
        return self.flops_of_ghost(self.site)

    def add(self, theta, left, right):
        (g1, p1), (g2, p2), s = left, right, self.site.rows
        c, t, _ = self.sizes(self.site)
        n1, n2, points = len(g1), len(g2), max(1, self.ROWS // t)
        for first in range(0, n2, self.POINTS):
            last = min(first + self.POINTS, n2)
            n = last - first
            g = g2[first:last].view(n, s * c, t)  # (n, S M C, T)
            v = self.site.scratch("ghost", n, s * c, t)
            end = last if left is right else n1
            for start in range(0, end, points):
                h = self._patch_gram(p1[start : min(start + points, end)], p2[first:last])  # (points, T, n, T)
                for i, hi in enumerate(h, start):
                    torch.bmm(g, hi.permute(1, 2, 0), out=v)  # (n, S M C, T)
                    theta[i * s : (i + 1) * s, first * s : last * s] += g1[i] @ v.view(n * s, c * t).T  # (S, n S)

    def _patch_gram(self, p: Tensor, others: Tensor) -> Tensor:
        """H of points with others, (n1, T, n2, T)."""
        n1, n2, t = len(p), len(others), p.shape[1]
        h = p.flatten(0, 1) @ others.flatten(0, 1).T if self.weight else p.new_zeros(n1 * t, n2 * t)
        return (h + 1 if self.bias else h).view(n1, t, n2, t)


def cheapest_convolution(site: Site) -> type[Layer]:
    """The choice between rows of J and the ghost contraction, by flops, those of ghosts at half the speed.

    In one line, for many points: ghost if 2 T (T D + T S C + S^2 C) < S^2 C D, so for small maps of wide layers.
    If rows, J is kept, S C D numbers per point, unless its factors, S C T and the input, are less than half of that.
    """
    if SHORT_GEMM * Convolution.flops_of_ghost(site) < Convolution.flops_of_rows(site):
        return ConvGhost
    s, (c, t, d) = site.rows, Convolution.sizes(site)
    return ConvRows if s * c * d <= 2 * (s * c * t + math.prod(site.a)) else ConvFactors
