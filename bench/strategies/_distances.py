"""Squared Euclidean distances from inner products, with rounding taken for what it is."""

from torch import Tensor

# Features come from float32 networks: two that agree to 1e-6 of their length may well be one image in two batches.
RESOLUTION = 1e-12


def squared_distances(inner: Tensor, ours: Tensor, theirs: Tensor) -> Tensor:
    """|a - b|^2 = |a|^2 + |b|^2 - 2 a.b from `inner` = a.b, `ours` = |a|^2 and `theirs` = |b|^2, which broadcast.

    Zero where a and b are equal within the precision of a network, so that a duplicate is never worth a label.
    """
    total = ours + theirs
    squared = total - 2 * inner
    return squared.masked_fill(squared <= RESOLUTION * total, 0)  # what is not a number stays so, and is noticed
