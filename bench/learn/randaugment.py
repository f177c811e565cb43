"""The views of FixMatch: a weak one (flip and crop), a strong one (RandAugment, then cutout). A batch at a time.

Every image has operations, levels and signs of its own. Images are grouped by operation; nothing loops over images.
The operations and their ranges are those of the released PyTorch code (kekmodel/FixMatch-pytorch), where PIL applies
them to bytes; here pixels are floats in [0, 1], rounded to bytes only where an operation is defined on bytes.
`OPERATIONS` says which of them suit which kind of image.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.core.errors import UserError

GREY = 127 / 255  # of the cutout
LUMA = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R 601, as PIL)


@dataclass(frozen=True)
class Views:
    """How to vary the images of a dataset; the defaults are FixMatch's for CIFAR."""

    flip: bool  # whether a mirrored image keeps its class; not for digits
    operations: tuple[str, ...]  # see OPERATIONS
    count: int = 2  # operations on an image, with replacement
    probability: float = 0.5  # with which each of them is applied
    cutout: float = 0.5  # side of the grey square, as a share of the image's side
    padding: float = 0.125  # largest shift of a crop, as a share of the side

    def __post_init__(self):
        if unknown := set(self.operations) - set(ALL):
            raise UserError(f"RandAugment: unknown operations {', '.join(sorted(unknown))}; allowed: {', '.join(ALL)}")
        if not self.operations:
            raise UserError("RandAugment: no operations; for none of them name the one that changes nothing, identity")
        for name, value in (("probability", self.probability), ("cutout", self.cutout), ("padding", self.padding)):
            if not 0 <= value <= 1:
                raise UserError(f"RandAugment: found {name} = {value:g}; allowed: a share from 0 to 1")

    def weak(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Horizontal flip with probability 1/2, if allowed, then a crop of the image reflected at its edges."""
        n, _, height, width = x.shape
        shifts = [
            torch.randint(-pad, pad + 1, (n, 1), generator=generator).to(x.device)
            for pad in (min(int(self.padding * side), side - 1) for side in (height, width))
        ]
        rows, columns = (
            _reflected(shift + torch.arange(side, device=x.device), side)  # (N, side)
            for shift, side in zip(shifts, (height, width), strict=True)
        )
        if self.flip:
            flipped = (torch.rand(n, 1, generator=generator) < 0.5).to(x.device)
            columns = torch.where(flipped, width - 1 - columns, columns)
        return _pick(x, rows[:, :, None], columns[:, None, :])

    def strong(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """A weak view, then `count` random operations at levels 1 to 9 (of 10), then a cutout; x is (N, C, H, W)."""
        n = len(x)
        x = self.weak(x, generator)
        for _ in range(self.count):
            which = torch.randint(0, len(self.operations), (n,), generator=generator)
            which[torch.rand(n, generator=generator) >= self.probability] = -1  # left as it is
            level = torch.randint(1, 10, (n,), generator=generator).double()
            sign = 2.0 * torch.randint(0, 2, (n,), generator=generator) - 1
            for number, name in enumerate(self.operations):
                chosen = (which == number).nonzero()[:, 0]
                if name != "identity" and len(chosen):
                    to = lambda values: values[chosen].to(x.device)  # noqa: B023, E731
                    there = chosen.to(x.device)
                    x[there] = ALL[name](x[there], to(level), to(sign))
        return cutout(x, self.cutout, generator)


def cutout(x: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """A grey square of `share` of the image's shorter side, around a uniform point.

    It is pushed back inside at the left and upper edge and cut off at the others (released code, which draws it a pixel
    wider than it says).
    """
    n, _, height, width = x.shape
    square = int(share * min(height, width))
    inside = []
    for side in (height, width):
        corner = (torch.rand(n, 1, generator=generator) * side - square / 2).clamp(min=0).long().to(x.device)
        place = torch.arange(side, device=x.device)
        inside.append((place >= corner) & (place < corner + square))  # (N, side)
    return torch.where(inside[0][:, None, :, None] & inside[1][:, None, None, :], GREY, x)


def _reflected(index: Tensor, side: int) -> Tensor:
    """Positions beyond an edge, mirrored at the pixel on it."""
    return side - 1 - (side - 1 - index.abs()).abs()


def _pick(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The pixels of each image at given places; rows and columns broadcast to (N, H, W)."""
    n, channels, height, width = x.shape
    place = (rows * width + columns).flatten(1)[:, None].expand(-1, channels, -1)  # (N, C, H W)
    return x.flatten(2).gather(2, place).view(n, channels, height, width)


def _affine(x: Tensor, matrix: Tensor) -> Tensor:
    """Nearest pixel, black outside: what is at (u, v) comes from matrix (u, v, 1)', in pixels; matrix is (N, 2, 3)."""
    _, _, height, width = x.shape
    u, v = (torch.arange(side, device=x.device, dtype=torch.double) + 0.5 for side in (width, height))
    a, b, c = matrix[:, :, :, None, None].unbind(2)  # (N, 2, 1, 1) each
    columns, rows = (a * u + b * v[:, None] + c).floor().long().unbind(1)  # (N, H, W)
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    return _pick(x, rows.clamp(0, height - 1), columns.clamp(0, width - 1)) * inside[:, None]


def _unmoved(level: Tensor) -> Tensor:
    return torch.eye(2, 3, dtype=torch.double, device=level.device).repeat(len(level), 1, 1)


def rotate(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Up to 30 degrees about the centre, anticlockwise for sign +1."""
    angle = torch.deg2rad(30 * level / 10 * sign)
    cos, sin = angle.cos(), angle.sin()
    u, v = x.shape[3] / 2, x.shape[2] / 2  # the centre stays
    entries = [cos, -sin, u - u * cos + v * sin, sin, cos, v - u * sin - v * cos]
    return _affine(x, torch.stack(entries, 1).view(-1, 2, 3))


def shear_x(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """By up to 0.3, the upper edge stays."""
    matrix = _unmoved(level)
    matrix[:, 0, 1] = 0.3 * level / 10 * sign
    return _affine(x, matrix)


def shear_y(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """By up to 0.3, the left edge stays."""
    matrix = _unmoved(level)
    matrix[:, 1, 0] = 0.3 * level / 10 * sign
    return _affine(x, matrix)


def translate_x(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """By up to 0.3 of the width, in whole pixels."""
    matrix = _unmoved(level)
    matrix[:, 0, 2] = (0.3 * level / 10 * sign * x.shape[3]).trunc()
    return _affine(x, matrix)


def translate_y(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """By up to 0.3 of the height, in whole pixels."""
    matrix = _unmoved(level)
    matrix[:, 1, 2] = (0.3 * level / 10 * sign * x.shape[2]).trunc()
    return _affine(x, matrix)


def _blend(x: Tensor, other: Tensor, level: Tensor) -> Tensor:
    """`other` at factor 0, `x` at factor 1; factors 0.14 to 0.86, for levels 1 to 9."""
    return torch.lerp(other.expand_as(x), x, (0.9 * level / 10 + 0.05).to(x.dtype).view(-1, 1, 1, 1))


def _luma(x: Tensor) -> Tensor:
    """Brightness as the eye sees it, (N, 1, H, W)."""
    return x if x.shape[1] == 1 else (x * x.new_tensor(LUMA).view(1, 3, 1, 1)).sum(1, keepdim=True)


def brightness(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    return _blend(x, x.new_zeros(()), level)


def colour(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    return _blend(x, _luma(x), level)


def contrast(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    return _blend(x, _luma(x).mean((1, 2, 3), keepdim=True), level)


def sharpness(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Blended with a smoothed image; the pixels on the edges stay."""
    kernel = x.new_tensor([[1, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13
    smooth, channels = x.clone(), x.shape[1]
    if min(x.shape[2:]) > 2:
        smooth[:, :, 1:-1, 1:-1] = F.conv2d(x, kernel.expand(channels, 1, 3, 3), groups=channels)
    return _blend(x, smooth, level)


def autocontrast(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Each channel stretched to [0, 1]."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    return torch.where(high > low, (x - low) / (high - low).clamp(min=1e-12), x)


def equalise(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Each channel's histogram made flat, in PIL's integer arithmetic. Below 256 pixels it changes nothing."""
    bytes_ = _bytes(x).flatten(2)  # (N, C, H W)
    counts = bytes_.new_zeros(*bytes_.shape[:2], 256).scatter_add_(2, bytes_, torch.ones_like(bytes_))  # (N, C, 256)
    brightest = counts.gather(2, bytes_.amax(2, keepdim=True))
    step = (bytes_.shape[2] - brightest) // 255  # (N, C, 1)
    table = ((step // 2 + counts.cumsum(2) - counts) // step.clamp(min=1)).clamp(max=255)  # (N, C, 256)
    return torch.where(step[..., None] > 0, table.gather(2, bytes_).view(x.shape) / 255, x)


def posterise(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Only the highest 4 to 7 of 8 bits of each byte."""
    unit = 2 ** (8 - (4 + (4 * level / 10).long())).view(-1, 1, 1, 1)
    return (_bytes(x) // unit * unit).to(x.dtype) / 255


def solarise(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Pixels from a threshold on are inverted."""
    threshold = (256 - (256 * level / 10).floor()).view(-1, 1, 1, 1)
    return torch.where(_bytes(x) < threshold, x, 1 - x)


def _bytes(x: Tensor) -> Tensor:
    return (x * 255).round().long()


# name -> (images (N, C, H, W) in [0, 1], levels (N,) in double, signs (N,)) to images
ALL: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "autocontrast": autocontrast,
    "brightness": brightness,
    "colour": colour,
    "contrast": contrast,
    "equalise": equalise,
    "identity": lambda x, level, sign: x,
    "posterise": posterise,
    "rotate": rotate,
    "sharpness": sharpness,
    "shear-x": shear_x,
    "shear-y": shear_y,
    "solarise": solarise,
    "translate-x": translate_x,
    "translate-y": translate_y,
}
# FixMatch's fourteen; and those that leave a small digit its class, found in pilot runs on MNIST at 14 x 14
OPERATIONS: dict[str, tuple[str, ...]] = {
    "natural": tuple(ALL),
    "digits": ("identity", "rotate", "shear-x", "shear-y", "translate-x", "translate-y", "contrast", "sharpness"),
}
