"""Cholesky factors of large kernels in place: one n x n matrix holds the factor and, still, the kernel.

    factor = Factor(kernel)          the lower triangle becomes L, with L L^T = K + shift I; the upper keeps K
    factor.solve(b)                  (K + shift I)^-1 b
    factor.refined(b, steps)         the same in float64, whatever the factor's precision
    factor.product(v)                K v, from the upper triangle and the diagonal kept aside
    factor.restore()                 the kernel again, as it was

torch.linalg.cholesky makes a second matrix, and its solvers may copy that; at n = 50,000 in float32 each is 10 GB.
Here a panel of columns is updated by one product with all columns before it (left-looking), so nearly all flops are in
large products, and only a panel is ever copied.
"""

import torch
from torch import Tensor

from bench.core.errors import UserError
from bench.core.progress import counter

PANEL = 384  # columns at a time: enough for products at full speed, and few flops are left to anything else
FEW = 256  # rows whose absolute values are summed, or which are brought to another precision, at once
ROWS = 8192  # of a panel that are solved at once, which bounds the copy


class Factor:
    """L of K + shift I, in the place of K's lower triangle. `kernel` (n, n) is symmetric and is overwritten."""

    def __init__(self, kernel: Tensor, shift: float = 0.0, panel: int = PANEL, progress: bool = False):
        self.matrix, self.shift, self.panel = kernel, shift, panel
        self.diagonal = kernel.diagonal().clone()  # (n,), of K
        kernel.diagonal().add_(shift)
        edges = range(0, len(kernel), panel)
        with counter("  factor", len(edges), progress) as (tick, _):
            for start in edges:
                self._column(start)
                tick()

    def _column(self, start: int) -> None:
        """Columns start .. start + panel of L: subtract the product with those before, factor, solve below."""
        a, end = self.matrix, min(start + self.panel, len(self.matrix))
        head = a[start:end, start:end]  # (b, b)
        upper = head.triu(1)
        if start:
            before = a[start:end, :start]  # (b, start)
            head.addmm_(before, before.mT, alpha=-1)
            if end < len(a):
                a[end:, start:end].addmm_(a[end:, :start], before.mT, alpha=-1)
        root, failed = torch.linalg.cholesky_ex(head)
        if failed:
            head.copy_(upper)
            self.restore()
            raise NotPositive(start + int(failed) - 1)
        head.copy_(root.tril() + upper)
        for i in range(end, len(a), ROWS):
            rows = a[i : min(i + ROWS, len(a)), start:end]  # X L^T = rows
            rows.copy_(torch.linalg.solve_triangular(root, rows.mT, upper=False).mT)

    def solve(self, b: Tensor) -> Tensor:
        """(K + shift I)^-1 b for b (n, k)."""
        return self.backward(self.forward(b))

    def refined(self, b: Tensor, steps: int) -> tuple[Tensor, float]:
        """(K + shift I)^-1 b in float64 from a factor of less, and the relative residual: each step solves for what
        the last one left, which is computed in float64.
        """
        b = b.double()  # (n, k)
        x = torch.zeros_like(b)
        left = b
        for _ in range(steps + 1):
            x = x + self.solve(left.to(self.matrix.dtype)).double()
            left = b - self.product(x) - self.shift * x
        return x, float(left.norm() / b.norm())

    def forward(self, b: Tensor) -> Tensor:
        """L^-1 b; rows up to any N depend on the first N of b alone, so leading blocks come for free."""
        a, x = self.matrix, b.clone()
        for start in range(0, len(a), self.panel):
            end = min(start + self.panel, len(a))
            x[start:end] -= a[start:end, :start] @ x[:start]
            x[start:end] = torch.linalg.solve_triangular(a[start:end, start:end].tril(), x[start:end], upper=False)
        return x

    def backward(self, b: Tensor, size: int | None = None) -> Tensor:
        """L^-T b, of the leading block of that size if one is given: the factor of the first points is a part of L."""
        a, n = self.matrix, len(self.matrix) if size is None else size
        x = b[:n].clone()
        for start in reversed(range(0, n, self.panel)):
            end = min(start + self.panel, n)
            x[start:end] -= a[end:n, start:end].mT @ x[end:n]
            root = a[start:end, start:end].tril().mT
            x[start:end] = torch.linalg.solve_triangular(root, x[start:end], upper=True)
        return x

    def product(self, v: Tensor) -> Tensor:
        """K v for v (n, k), without the shift, in the precision of v."""
        a, out = self.matrix, self.diagonal.to(v.dtype)[:, None] * v
        few = self.panel if a.dtype == v.dtype else FEW  # rows that may have to be brought to another precision
        for start in range(0, len(a), few):
            end = min(start + few, len(a))
            upper = a[start:end, start:end].triu(1).to(v.dtype)
            out[start:end] += upper @ v[start:end] + upper.mT @ v[start:end]
            if end < len(a):
                block = a[start:end, end:].to(v.dtype)  # (b, n - end)
                out[start:end] += block @ v[end:]
                out[end:] += block.mT @ v[start:end]
        return out

    def norm(self) -> Tensor:
        """|K + shift I|_1, the largest sum of absolute values in a column."""
        a, sums = self.matrix, (self.diagonal + self.shift).abs()
        for start in range(0, len(a), FEW):
            rows = a[start : start + FEW, start:].triu(1).abs()  # (few, n - start)
            sums[start : start + FEW] += rows.sum(1)
            sums[start:] += rows.sum(0)
        return sums.max()

    def restore(self) -> Tensor:
        """The kernel again: its lower triangle from the upper one, and the diagonal."""
        a = self.matrix
        for start in range(0, len(a), self.panel):
            end = min(start + self.panel, len(a))
            upper = a[start:end, start:end].triu(1)
            a[start:end, start:end] = upper + upper.mT
            a[end:, start:end] = a[start:end, end:].mT
        a.diagonal().copy_(self.diagonal)
        return a


class NotPositive(UserError):
    """A pivot was not positive; the kernel is as it was."""

    def __init__(self, row: int):
        super().__init__(f"the kernel is not positive definite at row {row}")
        self.row = row
