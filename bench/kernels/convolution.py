"""What a convolution adds to Theta: gradients that are sums over positions, and three ways to take inner products.

Rows of J kept (`ConvRows`), rows of J formed some columns at a time (`ConvFactors`), no rows at all (`ConvGhost`);
`cheapest_convolution` holds the rule. For the convolution before mean and read-out `tail` has a fourth way.
Letters as in `bench.kernels`; M C are the channels of one row, see `layers`.
"""

import math

import torch
from torch import Tensor

from bench.core.errors import UserError
from bench.kernels.layers import Contracted, Kept, Layer, Rows, Site, add_gram


class Patches:
    """P of a convolution in kh pieces P_y (n, T, kw C_in), one per row y of the kernel, by few copies.

    Position (h, w) sees through row y of the kernel the kw C_in numbers from (sh h + y, sw w) on of the padded input,
    which lie side by side, channels last. These windows are copied for every row of the image and every w, rows sorted
    by their number modulo sh into planes: row y of the kernel reads all its positions, in order, from plane y mod sh,
    beginning at row y div sh. So they are kw copies of the image, not kh kw. Borders stay zero from call to call, for
    all layers of one geometry.
    """

    def __init__(self, site: Site):
        conv, self.site = site.module, site
        (kh, self.kw), (self.sh, self.sw) = conv.kernel_size, conv.stride
        self.left, _, self.top, _ = conv._reversed_padding_repeated_twice
        _, self.height, width = site.z
        planes, rows = min(self.sh, kh), self.height + (kh - 1) // self.sh
        self.shape = (planes, rows, width, self.kw * site.a[0])  # of a point's windows
        self.starts = [divmod(y, self.sh) for y in range(kh)]  # row and plane at which P_y begins

    def windows(self, a: Tensor, part: slice | None = None) -> Tensor:
        """Of inputs (n, C_in, H, W); of the kw C_in entries only some, if told so. Overwritten by the next call."""
        padded, (planes, rows, width, size) = self._padded(a), self.shape
        part = part or slice(0, size)
        image, line, pixel, _ = padded.stride()
        windows = padded.as_strided(
            (len(a), planes, rows, width, part.stop - part.start),
            (image, line, self.sh * line, self.sw * pixel, 1),
            padded.storage_offset() + part.start,
        )
        return self.site.scratch("windows", *windows.shape).copy_(windows)

    def __call__(self, a: Tensor, part: slice | None = None) -> list[Tensor]:
        """The P_y, views of the windows."""
        windows = self.windows(a, part)
        return [windows[:, plane, row : row + self.height].flatten(1, 2) for row, plane in self.starts]

    def whole(self, a: Tensor) -> Tensor:
        """P (n, T, D) by one copy of kh kw images, for products in which P is used often."""
        padded, (_, _, width, size) = self._padded(a), self.shape
        image, line, pixel, _ = padded.stride()
        patches = padded.as_strided(
            (len(a), self.height, width, len(self.starts), size),
            (image, self.sh * line, self.sw * pixel, line, 1),
        )
        whole = self.site.scratch("patches", *patches.shape).copy_(patches)
        return whole.view(len(a), self.height * width, -1)

    def _padded(self, a: Tensor) -> Tensor:
        """Inputs (n, C_in, H, W) within zeros, channels last, as far as they are seen."""
        n, (c_in, h_in, w_in), (_, rows, width, _) = len(a), self.site.a, self.shape
        high, wide = self.sh * rows, self.sw * (width - 1) + self.kw
        key = ("padded", high, wide, self.left, self.top, *self.site.a)
        if len(self.site.shared.get(key, ())) < n:
            self.site.shared[key] = a.new_zeros(n, high, wide, c_in)
        padded = self.site.shared[key][:n]
        inside = padded[:, self.top : self.top + h_in, self.left : self.left + w_in]
        inside.copy_(a.permute(0, 2, 3, 1)[:, : inside.shape[1], : inside.shape[2]])
        return padded


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
        # Windows, each number kw times, and patches, kh kw times; gradients sorted by position, if they are not so
        return 2 * t * d + self.site.backwards * self.site.z[0] * t

    @staticmethod
    def sizes(site: Site) -> tuple[int, int, int]:
        """M C, the channels of one row of J, T positions, and D, the size of a patch."""
        c, height, width = site.z
        return site.backwards // site.rows * c, height * width, site.module.weight[0].numel()

    @classmethod
    def products_of_rows(cls, site: Site) -> tuple[int, int]:
        """Flops: 2 S M C D T per point to form rows, 2 S^2 M C D per pair for their inner products."""
        s, (mc, t, d) = site.rows, cls.sizes(site)
        return site.points * 2 * s * mc * d * t, site.pairs * 2 * s * s * mc * d

    def products_of_bias(self) -> int:
        """Flops: 2 S^2 M C per pair for inner products of rows of the bias."""
        s, (mc, _, _) = self.site.rows, self.sizes(self.site)
        return self.bias * self.site.pairs * 2 * s * s * mc

    @classmethod
    def products_of_ghost(cls, site: Site) -> tuple[int, int, int]:
        """Flops: for H from windows; per pair 2 T^2 S M C for V = G H, 2 S^2 M C T for inner products with V."""
        s, (mc, t, _), (planes, rows, width, size) = site.rows, cls.sizes(site), Patches(site).shape
        h = planes * 2 * (rows * width) ** 2 * size
        return site.pairs * h, site.pairs * 2 * t * t * s * mc, site.pairs * 2 * s * s * mc * t


class ConvRows(Convolution, Rows):
    """A convolution that keeps its rows of J = [G P, sum_t g_t]: best where S C D is small, in early, large maps."""

    def __init__(self, site: Site):
        super().__init__(site)
        self.pieces = 1 if site.backwards > 1 else len(self.patches.starts)  # joined patches pay for many gradients

    def room(self):
        mc, _, d = self.sizes(self.site)
        pieces = [(self.site.rows, mc * d // self.pieces)] * self.pieces  # (S, M C D), or (S, M C kw C_in) each
        return pieces * self.weight + [(self.site.rows, mc)] * self.bias

    def keep(self, a, kept):
        n, many = len(a), self.site.backwards

        def take(g):  # (B, n, C, H, W)
            if self.bias:
                kept[-1].view(n, many, -1).copy_(g.sum((3, 4)).transpose(0, 1))  # (n, B, C)
            if self.weight and many > 1:
                self._form_all(a, by_position(g).mT, kept[0].view(n, many, g.shape[2], -1))
            elif self.weight:
                self._form_one(a, by_position(g[0]).mT, kept)

        return take

    def _form_all(self, a: Tensor, g: Tensor, rows: Tensor) -> None:
        """Rows G P (n, B, C, D) of n points from all B gradients (B, n, C, T): B products with the same patches, which
        stay in the caches. Side by side, (B C, T), the gradients would make one larger product, but for a copy.
        """
        for k, p in enumerate(self.patches.whole(a)):  # (T, D)
            torch.bmm(g[:, k], p.expand(len(g), -1, -1), out=rows[k])

    def _form_one(self, a: Tensor, g: Tensor, kept: Kept) -> None:
        """Rows G P of n points from one gradient each, (n, C, T), a row of the kernel at a time."""
        for piece, p in zip(kept, self.patches(a), strict=False):
            torch.bmm(g, p, out=piece.view(len(a), g.shape[1], -1))  # (n, C, kw C_in)

    def flops(self):
        return sum(self.products_of_rows(self.site)) + self.products_of_bias()


class ConvFactors(Convolution, Contracted):
    """A convolution that keeps the factors, G (S C, T) and a, and forms some columns of J = [G P, sum_t g_t] at a time,
    those of some of the D columns of P (T, D).

    For small maps, T < D, where S C D numbers of J are many more than the S C T of G. The rows of J are still those of
    all points of two tiles at once, so nothing is computed twice for one block of Theta.
    """

    COLUMNS = 6144  # of J at a time per kernel row, for a Gram matrix at full speed; more as long as they take
    BYTES = 2**25  # at most
    POINTS = 64  # whose patches there are at a time
    LANES = 16  # patch entries at a time are a multiple of this: a product with 17 columns is slower than one with 32

    def prepare(self, workspace):
        self.workspace = workspace

    def room(self):
        mc, t, _ = self.sizes(self.site)
        c_in, height, width = self.site.a
        return [(t, self.site.rows * mc), (height, width, c_in)]

    def keep(self, a, kept):
        kept[1].copy_(a.permute(0, 2, 3, 1))
        g = kept[0].unflatten(2, (self.site.backwards, -1))  # (n, T, B, C)

        def take(gradients):
            g.copy_(by_position(gradients).permute(1, 2, 0, 3))

        return take

    def flops(self):
        return sum(self.products_of_rows(self.site)) + self.products_of_bias()

    def add(self, theta, left, right):
        mc, _, d = self.sizes(self.site)
        if self.bias:
            sums = [k[0].sum(1).view(-1, mc) for k in (left, right)]  # (N S, M C)
            add_gram(theta, *sums, symmetric=left is right)
        if self.weight:
            kh = self.site.module.kernel_size[0]
            rows = len(theta) if left is right else sum(theta.shape)
            column = rows * mc * kh * theta.element_size()  # bytes, of one patch entry per kernel row
            width = max(self.COLUMNS // mc, self.BYTES // column) // self.LANES * self.LANES
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
    """A convolution whose rows of J are never formed: with J_ns = G_ns P_n and <A, B> = tr(A B^T),

        Theta[ns, mr] = <G_ns P_n, G_mr P_m> = <G_ns, V>,    V = G_mr H of shape (C, T),    H = P_m P_n^T (T, T).

    The bias adds <G_ns 1, G_mr 1> = <G_ns, G_mr 1 1^T>: + 1 in each entry of H.

    H is the sum of P_y P_y^T over rows y of the kernel, and the P_y are parts of the same windows: inner products of
    windows are taken once, and summed where they are those of patches.
    """

    BYTES = 5 * 2**20  # of V = G H, and of H, for some points with as many others: they stay in the caches
    ROWS = 1024  # of a product that makes H

    def room(self):
        mc, t, _ = self.sizes(self.site)
        return [(self.site.rows, t, mc), self.patches.shape]

    def keep(self, a, kept):
        kept[1].copy_(self.patches.windows(a))
        g = kept[0].view(len(a), self.site.rows, kept[0].shape[2], -1, self.site.z[0])  # (n, S, T, M, C)

        def take(gradients):
            rows = by_position(gradients).unflatten(0, (self.site.rows, -1))  # (S, M, n, T, C)
            g.copy_(rows.permute(2, 0, 3, 1, 4))

        return take

    def flops(self):
        return sum(self.products_of_ghost(self.site))

    def add(self, theta, left, right):
        (g1, w1), (g2, w2), s = left, right, self.site.rows
        mc, t, _ = self.sizes(self.site)
        points = max(1, math.isqrt(self.BYTES // (s * t * max(mc, t) * theta.element_size())))
        some = -(-self.ROWS // (points * t)) * points  # left points whose H there is at a time
        for first in range(0, len(g2), points):
            others = slice(first, min(first + points, len(g2)))
            end = others.stop if left is right else len(g1)
            for start in range(0, end, some):
                h = self._patch_gram(w1[start : min(start + some, end)], w2[others])  # (some, T, m, T)
                for i in range(0, len(h), points):
                    k = slice(start + i, start + min(i + points, len(h)))
                    block = theta[k.start * s : k.stop * s, others.start * s : others.stop * s]
                    self._add_block(block, g1[k], g2[others], h[i : i + points])

    def _add_block(self, theta: Tensor, g1: Tensor, g2: Tensor, h: Tensor) -> None:
        """theta (n S, m S) += <G_ns, V>, V = G_mr H; gradients (n, S, T, M C) and (m, S, T, M C), h (n, T, m, T)."""
        (n, s, t, mc), m = g1.shape, len(g2)
        copies = self.site.scratch("H", m, s, n, t, t).copy_(h.permute(2, 0, 1, 3)[:, None])  # one for every G_mr
        v = self.site.scratch("V", m * s, n * t, mc)
        torch.bmm(copies.view(m * s, n * t, t), g2.flatten(0, 1), out=v)
        products = torch.bmm(g1.flatten(2), v.view(m * s, n, t * mc).permute(1, 2, 0))  # (n, S, m S)
        theta.view(n, s, m * s).add_(products)

    def _patch_gram(self, windows: Tensor, others: Tensor) -> Tensor:
        """H of points with others, (n, T, m, T)."""
        (n, _, rows, width, _), m, height = windows.shape, len(others), self.patches.height
        h = windows.new_full((n, height, width, m, height, width), float(self.bias))
        for plane in range(self.weight * windows.shape[1]):
            left, right = (each[:, plane].flatten(0, 2) for each in (windows, others))
            products = (left @ right.T).view(n, rows, width, m, rows, width)
            for row in (row for row, its_plane in self.patches.starts if its_plane == plane):
                h += products[:, row : row + height, :, :, row : row + height]
        return h.view(n, height * width, m, -1)


def by_position(z: Tensor) -> Tensor:
    """(..., C, H, W) as (..., T, C), without a copy if channels are last in memory."""
    return z.movedim(-3, -1).flatten(-3, -2)


def convolution(site: Site) -> Layer:
    """The layer of a convolution, if it is one that `Patches` can read."""
    conv = site.module
    if conv.groups != 1 or conv.dilation != (1, 1) or conv.padding_mode != "zeros":
        raise UserError(f"{site.where}: kernels know only convolutions with groups 1, dilation 1 and zero padding")
    return cheapest_convolution(site)(site)


def cheapest_convolution(site: Site) -> type[Layer]:
    """The choice between rows of J and the ghost contraction, by the time of their products.

    In units of a large product's time per flop, measured: forming rows takes 1.25 and so does H, V = G H, with a short
    inner dimension T, 1 + 16 / T, inner products of only S rows with V 1 + 16 / S. So ghosts are for small maps of wide
    layers.
    If rows, J is kept, S M C D numbers per point, unless its factors, S M C T and the input, are less than half.
    """
    s, (mc, t, d) = site.rows, Convolution.sizes(site)
    form, gram = Convolution.products_of_rows(site)
    h, v, inner = Convolution.products_of_ghost(site)
    if 1.25 * h + (1 + 16 / t) * v + (1 + 16 / s) * inner < 1.25 * form + gram:
        return ConvGhost
    return ConvRows if s * mc * d <= 2 * (s * mc * t + math.prod(site.a)) else ConvFactors
