"""Who computes which tiles of a kernel, where several processes, GPUs or machines work on one.

Tiles are put on a Z-curve, which goes through a square quarter by quarter, and the curve is cut into pieces of equal
work. A piece is thus a block of tiles rather than rows of them: of a symmetric 100 x 100 tiles and 50 parts, a part
needs the gradients of 27 tiles of points on average, where with rows it would be 68. The split depends on sizes alone.
"""

from bench.core.errors import UserError

Tile = tuple[int, int]  # where it starts: points (i, j)


def share(tiles: list[Tile], tile: int, ends: tuple[int, int], symmetric: bool, part: tuple[int, int]) -> list[Tile]:
    """The tiles that fall to `part` = (k, of), in their order. `ends`: the numbers of points N1 and N2."""
    k, of = part

    def work(i: int, j: int) -> int:
        """Pairs of points, twice; of a tile on the diagonal half are computed."""
        pairs = min(tile, ends[0] - i) * min(tile, ends[1] - j)
        return pairs if symmetric and i == j else 2 * pairs

    total, before, mine = sum(work(*each) for each in tiles), 0, set()
    for each in sorted(tiles, key=lambda ij: _curve(ij[0] // tile, ij[1] // tile)):
        if (2 * before + work(*each)) * of // (2 * total) == k:  # its middle falls into the k-th piece
            mine.add(each)
        before += work(*each)
    return [each for each in tiles if each in mine]


def check(part: tuple[int, int], out: object) -> None:
    """Say what a part must be, before anything is computed."""
    whole = isinstance(part, tuple | list) and len(part) == 2 and all(type(each) is int for each in part)
    if not whole or not 0 <= part[0] < part[1]:
        raise UserError(f"part {part!r}: allowed is (k, of), whole numbers with 0 <= k < of")
    if out is None:
        raise UserError('part needs a file that all parts share: gram(..., out="theta.npy", part=(k, of))')


def _curve(i: int, j: int) -> int:
    """The place of (i, j) on the Z-curve: their binary digits in turns."""
    return sum((2 * (i >> b & 1) + (j >> b & 1)) << 2 * b for b in range(max(i, j).bit_length()))
