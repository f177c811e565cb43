"""The views of `bench/learn/randaugment.py` image by image with PIL and torchvision, as the released code makes them.

Draws are those of a batch, in the same order, so the same generator gives the same views but for rounding to bytes.
"""

import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from torch import Tensor

from bench.learn.randaugment import Views
from bench.learn.vision import torchvision

functions = torchvision.transforms.functional
GREY = 127


def images(x: Tensor) -> list[Image.Image]:
    """Pixels in [0, 1], (N, C, H, W), as images of bytes: what the released code reads from the dataset."""
    return [functions.to_pil_image((each * 255).round().byte()) for each in x]


def weak(views: Views, given: list[Image.Image], generator: torch.Generator) -> Tensor:
    return torch.stack([functions.to_tensor(image) for image in _weak(views, given, generator)])


def strong(views: Views, given: list[Image.Image], generator: torch.Generator) -> Tensor:
    found, n = _weak(views, given, generator), len(given)
    for _ in range(views.count):
        which = torch.randint(0, len(views.operations), (n,), generator=generator).tolist()
        applied = (torch.rand(n, generator=generator) < views.probability).tolist()
        levels = torch.randint(1, 10, (n,), generator=generator).tolist()
        signs = (2 * torch.randint(0, 2, (n,), generator=generator) - 1).tolist()
        for i in range(n):
            if applied[i]:
                found[i] = OPERATIONS[views.operations[which[i]]](found[i], levels[i], signs[i])
    width, height = given[0].size
    square = int(views.cutout * min(height, width))
    tops, lefts = (
        (torch.rand(n, generator=generator) * side - square / 2).clamp(min=0).long().tolist()
        for side in (height, width)
    )
    for image, top, left in zip(found, tops, lefts, strict=True):
        if square:
            grey = GREY if image.mode == "L" else (GREY,) * 3
            ImageDraw.Draw(image).rectangle((left, top, left + square - 1, top + square - 1), grey)
    return torch.stack([functions.to_tensor(image) for image in found])


def _weak(views: Views, given: list[Image.Image], generator: torch.Generator) -> list[Image.Image]:
    width, height = given[0].size
    pads = [min(int(views.padding * side), side - 1) for side in (height, width)]
    down, right = (torch.randint(-pad, pad + 1, (len(given),), generator=generator).tolist() for pad in pads)
    flips = (torch.rand(len(given), generator=generator) < 0.5).tolist() if views.flip else [False] * len(given)
    found = []
    for i, image in enumerate(given):
        turned = functions.hflip(image) if flips[i] else image
        large = functions.pad(turned, [pads[1], pads[0]], padding_mode="reflect")
        found.append(functions.crop(large, pads[0] + down[i], pads[1] + right[i], height, width))
    return found


def _factor(level: int) -> float:
    return 0.9 * level / 10 + 0.05


def _moved(image: Image.Image, *matrix: float) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


# name -> (image, level, sign) to image
OPERATIONS = {
    "autocontrast": lambda image, level, sign: ImageOps.autocontrast(image),
    "brightness": lambda image, level, sign: ImageEnhance.Brightness(image).enhance(_factor(level)),
    "colour": lambda image, level, sign: ImageEnhance.Color(image).enhance(_factor(level)),
    "contrast": lambda image, level, sign: ImageEnhance.Contrast(image).enhance(_factor(level)),
    "equalise": lambda image, level, sign: ImageOps.equalize(image),
    "identity": lambda image, level, sign: image,
    "posterise": lambda image, level, sign: ImageOps.posterize(image, int(level * 4 / 10) + 4),
    "rotate": lambda image, level, sign: image.rotate(sign * int(level * 30 / 10)),
    "sharpness": lambda image, level, sign: ImageEnhance.Sharpness(image).enhance(_factor(level)),
    "shear-x": lambda image, level, sign: _moved(image, 1, sign * 0.3 * level / 10, 0, 0, 1, 0),
    "shear-y": lambda image, level, sign: _moved(image, 1, 0, 0, sign * 0.3 * level / 10, 1, 0),
    "solarise": lambda image, level, sign: ImageOps.solarize(image, 256 - int(level * 256 / 10)),
    "translate-x": lambda image, level, sign: _moved(image, 1, 0, int(sign * 0.3 * level / 10 * image.width), 0, 1, 0),
    "translate-y": lambda image, level, sign: _moved(image, 1, 0, 0, 0, 1, int(sign * 0.3 * level / 10 * image.height)),
}
