"""What a convolution adds to Theta: gradients that are sums over positions, and three ways to take inner products.

Rows of J kept (`ConvRows`), rows of J formed some columns at a time (`ConvFactors`), no rows at all (`ConvGhost`);
`cheapest_convolution` holds the rule. Letters as in `bench.kernels`; M C are the channels of one row, see `layers`.
"""

import math

import torch
from torch import Tensor

from bench.kernels.layers import Contracted, Kept, Layer, Rows, Site, add_gram


class Patches:
    """P of a convolution in kh pieces (n, T, kw C_in), one per row of the kernel, by few copies.

    Position (h, w) sees through row y of the kernel the kw C_in numbers from (sh h + y, sw w) on of the padded input,
    which lie side by side, channels last. Copied for every row of the image and every w, rows sorted by their number
    modulo sh, row y of the kernel reads all its positions, in order, from part y mod sh, beginning at row y div sh: kw
    copies of the image, not kh kw. Borders stay zero from call to call, for all layers of one geometry.
    """

    def __init__(self, site: Site):
        conv, self.site = site.module, site
        (self.kh, self.kw), (self.sh, self.sw) = conv.kernel_size, conv.stride
        self.left, _, self.top, _ = conv._reversed_padding_repeated_twice

    def __call__(self, a: Tensor, part: slice | None = None) -> list[Tensor]:
        """From inputs (n, C_in, H, W); of the kw C_in entries only some, if told so. Overwritten by the next call."""
        n, (c_in, h_in, w_in), (_, height, width) = len(a), self.site.a, self.site.z
        rows = height + (self.kh - 1) // self.sh
        high, wide = self.sh * rows, self.sw * (width - 1) + self.kw  # of the padded input, as far as it is seen
        key = ("padded", high, wide, self.left, self.top, *self.site.a)
        if len(self.site.shared.get(key, ())) < n:
            self.site.shared[key] = a.new_zeros(n, high, wide, c_in)
        padded = self.site.shared[key][:n]
        inside = padded[:, self.top : self.top + h_in, self.left : self.left + w_in]
        inside.copy_(a.permute(0, 2, 3, 1)[:, : inside.shape[1], : inside.shape[2]])
        part = part or slice(0, self.kw * c_in)
        line, size = wide * c_in, part.stop - part.start
        windows = padded.as_strided(
            (n, self.sh, rows, width, size),
            (high * line, line, self.sh * line, self.sw * c_in, 1),
            padded.storage_offset() + part.start,
        )
        windows = self.site.scratch("windows", *windows.shape).copy_(windows)
        starts = (divmod(y, self.sh) for y in range(self.kh))
        return [windows[:, plane, row : row + height].flatten(1, 2) for row, plane in starts]  # views (n, T, kw C_in)

    def whole(self, a: Tensor) -> Tensor:
        """P (n, T, D)."""
        pieces = self(a)
        n, t, d = pieces[0].shape
        return torch.cat(pieces, 2, out=self.site.scratch("patches", n, t, d * len(pieces)))


class Convolution(Layer):
    """z_t = W p_t + b at every position t, p_t the patch of a that position sees (D numbers): a linear layer applied T
    times with shared weights, so the gradients add up over positions,

        d/dW = sum_t g_t (x) p_t = G P,    d/db = sum_t g_t,    G = (g_ct) of shape (C, T), P = (p_td) of shape (T, D).

    The subclasses turn this into J J^T in three ways; `cheapest_convolution` chooses.
    """

    def __init__(self, site: Site):
        super().__init__(site)
        self.patches = Patches(site)

    def temporaries(self):
        _, t, d = self.sizes(self.site)
        return 2 * t * d  # windows, each number kw times, and patches, kh kw times

    @staticmethod
    def sizes(site: Site) -> tuple[int, int, int]:
        """M C, T and D."""
        c, height, width = site.z
        return site.backwards // site.rows * c, height * width, site.module.weight[0].numel()

    @classmethod
    def products_of_rows(cls, site: Site) -> tuple[int, int]:
        """Flops: 2 S C D T per point to form rows, 2 S^2 C D per pair for their inner products."""
        s, (c, t, d) = site.rows, cls.sizes(site)
        return site.points * 2 * s * c * d * t, site.pairs * 2 * s * s * c * d

    def products_of_bias(self) -> int:
        """Flops: 2 S^2 C per pair for inner products of rows of the bias."""
        s, (c, _, _) = self.site.rows, self.sizes(self.site)
        return self.bias * self.site.pairs * 2 * s * s * c

    @classmethod
    def products_of_ghost(cls, site: Site) -> tuple[int, int, int]:
        """Flops, per pair: 2 T^2 D for H, 2 T^2 S C for V = G H, 2 S^2 C T for inner products with V (`ConvGhost`)."""
        s, (c, t, d) = site.rows, cls.sizes(site)
        return site.pairs * 2 * t * t * d, site.pairs * 2 * t * t * s * c, site.pairs * 2 * s * s * c * t


class ConvRows(Convolution, Rows):
    """A convolution that keeps its rows of J = [G P, sum_t g_t]: best where S C D is small, in early, large maps."""

    def __init__(self, site: Site):
        super().__init__(site)
        self.pieces = 1 if site.backwards > 1 else self.patches.kh  # joined patches pay for many gradients

    def room(self):
        c, _, d = self.sizes(self.site)
        pieces = [(self.site.rows, c * d // self.pieces)] * self.pieces  # (S, M C D), or (S, M C kw C_in) each
        return pieces * self.weight + [(self.site.rows, c)] * self.bias

    def prepare(self, batch, workspace):
        if self.site.backwards > 1:
            c, height, width = self.site.z
            self.stack = self.site.empty(batch, height * width, self.site.backwards, c)  # once: new pages are slow

    def keep(self, a, kept):
        def take(b, g):
            self.stack[: len(a), :, b] = by_position(g)
            if b == self.site.backwards - 1:
                self._form(a, self.stack[: len(a)].flatten(2), kept)

        return take if self.site.backwards > 1 else lambda b, g: self._form(a, by_position(g), kept)

    def _form(self, a: Tensor, g: Tensor, kept: Kept) -> None:
        """Rows from all gradients of n points, (n, T, B C)."""
        n, _, c = g.shape
        if self.weight:
            patches = self.patches(a) if self.pieces > 1 else [self.patches.whole(a)]
            for piece, p in zip(kept, patches, strict=False):
                torch.bmm(g.transpose(1, 2), p, out=piece.view(n, c, -1))  # (n, B C, D or kw C_in)
        if self.bias:
            torch.sum(g, 1, out=kept[-1].view(n, c))

    def flops(self):
        return sum(self.products_of_rows(self.site)) + self.products_of_bias()


class ConvFactors(Convolution, Contracted):
    """A convolution that keeps the factors G and a, and forms some columns of J = [G P, sum_t g_t] at a time.

    For small maps, T < D, where S C D numbers of J are many more than the S C T of G. The rows of J are still those of
    all points of two tiles at once, so nothing is computed twice for one block of Theta.
    """

    COLUMNS = 2048  # of J at a time per kernel row, for a Gram matrix at full speed; more as long as they take
    BYTES = 2**25  # at most
    POINTS = 64  # whose patches there are at a time
    LANES = 16  # patch entries at a time are a multiple of this: a product with 17 columns is slower than one with 32

    def prepare(self, batch, workspace):
        self.workspace = workspace

    def room(self):
        c, t, _ = self.sizes(self.site)
        c_in, height, width = self.site.a
        return [(t, self.site.rows * c), (height, width, c_in)]

    def keep(self, a, kept):
        kept[1].copy_(a.permute(0, 2, 3, 1))
        g = kept[0].unflatten(2, (self.site.backwards, -1))  # (n, T, B, C)

        def take(b, gradient):
            g[:, :, b] = by_position(gradient)

        return take

    def flops(self):
        return sum(self.products_of_rows(self.site)) + self.products_of_bias()

    def add(self, theta, left, right):
        c, _, d = self.sizes(self.site)
        if self.bias:
            sums = [k[0].sum(1).view(-1, c) for k in (left, right)]  # (N S, M C)
            add_gram(theta, *sums, symmetric=left is right)
        if self.weight:
            kh = self.site.module.kernel_size[0]
            rows = len(theta) if left is right else sum(theta.shape)
            column = rows * c * kh * theta.element_size()  # bytes, of one patch entry per kernel row
            width = max(self.COLUMNS // c, self.BYTES // column) // self.LANES * self.LANES
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
        j = self.site.scratch(side, kh, n, kept[0].shape[2], part.stop - part.start)
        for start in range(0, n, self.POINTS):
            some = slice(start, start + self.POINTS)
            g, a = kept[0][some], kept[1][some].permute(0, 3, 1, 2)  # (POINTS, T, S M C)
            for y, p in enumerate(self.patches(a, part)):  # (POINTS, T, columns / (M C))
                torch.bmm(g.transpose(1, 2), p, out=j[y, some])
        return j.view(kh, n * s, -1)


class ConvGhost(Convolution, Contracted):
    """A convolution whose rows of J are never formed: with J_ns = G_ns P_n,

    Theta[ns, mr] = <G_ns P_n, G_mr P_m> = <G_ns, G_mr H>,    H = P_m P_n^T (T x T), + 1 in each entry for b.
    """

    POINTS, ROWS = 8, 1024  # right points, and rows of H, at a time: V and H stay in cache

    def room(self):
        c, t, d = self.sizes(self.site)
        return [(self.site.rows, c * t), (t, d)]

    def keep(self, a, kept):
        torch.cat(self.patches(a), 2, out=kept[1])  # (n, T, D)
        return self.take_into(kept[0])

    def flops(self):
        return sum(self.products_of_ghost(self.site))

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


def by_position(z: Tensor) -> Tensor:
    """(n, C, H, W) as (n, T, C), without a copy if channels are last in memory."""
    return z.permute(0, 2, 3, 1).flatten(1, 2)


def cheapest_convolution(site: Site) -> type[Layer]:
    """The choice between rows of J and the ghost contraction, by the time of their products.

    In units of a large product's time per flop, measured: forming rows takes 1.5, V = G H, with a short inner dimension
    T, 1 + 16 / T, and inner products of only S rows with V 2 + 16 / S. So ghosts are for small maps of wide layers.
    If rows, J is kept, S C D numbers per point, unless its factors, S C T and the input, are less than half of that.
    """
    s, (c, t, d) = site.rows, Convolution.sizes(site)
    form, gram = Convolution.products_of_rows(site)
    h, v, inner = Convolution.products_of_ghost(site)
    if h + (1 + 16 / t) * v + (2 + 16 / s) * inner < 1.5 * form + gram:
        return ConvGhost
    return ConvRows if s * c * d <= 2 * (s * c * t + math.prod(site.a)) else ConvFactors
