"""The views of FixMatch against PIL on single images, and against loops."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageEnhance, ImageOps

from bench.core.errors import UserError
from bench.core.seeds import torch_stream
from bench.learn.randaugment import ALL, GREY, OPERATIONS, Views, cutout
from bench.learn.vision import torchvision

NATURAL = Views(flip=True, operations=OPERATIONS["natural"])
DIGITS = Views(flip=False, operations=OPERATIONS["digits"], cutout=0.3)
functions = torchvision.transforms.functional
SHAPES = [(3, 32, 32), (1, 28, 28), (1, 8, 8), (3, 20, 33)]


def picture(shape: tuple[int, int, int], seed: int = 0) -> torch.Tensor:
    """A smooth image of bytes, (C, H, W), with every brightness from dark to light."""
    noise = torch.rand(1, shape[0], 5, 5, generator=torch.Generator().manual_seed(seed))
    smooth = F.interpolate(noise, shape[1:], mode="bicubic", align_corners=False)[0].clamp(0.02, 0.98)
    return (smooth * 255).round().byte()


def shifted(image: Image.Image, matrix: tuple[float, ...]) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


def by_pil(name: str, image: Image.Image, level: int, sign: int) -> Image.Image:
    """Each operation as the released code calls PIL: the slow reference."""
    factor, share, (width, height) = 0.9 * level / 10 + 0.05, sign * 0.3 * level / 10, image.size
    return {
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(factor),
        "colour": lambda: ImageEnhance.Color(image).enhance(factor),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(factor),
        "equalise": lambda: ImageOps.equalize(image),
        "identity": lambda: image,
        "posterise": lambda: ImageOps.posterize(image, int(level * 4 / 10) + 4),
        "rotate": lambda: image.rotate(sign * int(level * 30 / 10)),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(factor),
        "shear-x": lambda: shifted(image, (1, share, 0, 0, 1, 0)),
        "shear-y": lambda: shifted(image, (1, 0, 0, share, 1, 0)),
        "solarise": lambda: ImageOps.solarize(image, 256 - int(level * 256 / 10)),
        "translate-x": lambda: shifted(image, (1, 0, int(share * width), 0, 1, 0)),
        "translate-y": lambda: shifted(image, (1, 0, 0, 0, 1, int(share * height))),
    }[name]()


# In units of 1/255. PIL cuts to whole bytes after each step (autocontrast, blends), and contrast also rounds the mean.
TOLERANCE = {"autocontrast": 1, "brightness": 1, "colour": 1.5, "contrast": 1.5, "sharpness": 1.5}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ALL)
def test_every_operation_is_pil_s(name, shape):
    levels, signs = [1, 4, 5, 9, 9], [1, -1, 1, -1, 1]
    images = torch.stack([picture(shape, seed) for seed in range(5)])  # (5, C, H, W)
    ours = ALL[name](images / 255, torch.tensor(levels).double(), torch.tensor(signs).double()) * 255
    assert ours.dtype == torch.float
    for one, image, level, sign in zip(ours, images, levels, signs, strict=True):
        theirs = by_pil(name, functions.to_pil_image(image), level, sign)
        off = (one - functions.pil_to_tensor(theirs)).abs() > TOLERANCE.get(name, 0) + 1e-3
        # PIL rotates in fixed point, 16 bits after the point: where two pixels are equally near it may take the other.
        assert off.float().mean() <= (0.01 if name == "rotate" else 0), (level, sign)


@pytest.mark.parametrize("name", [name for name in ALL if name != "identity"])
def test_every_operation_does_something(name):
    x = picture((3, 32, 32))[None] / 255
    assert not torch.allclose(ALL[name](x, torch.full((1,), 5.0).double(), torch.ones(1).double()), x)


@pytest.mark.parametrize("name", ["autocontrast", "equalise", "posterise", "rotate", "sharpness", "solarise"])
def test_torchvision_s_tensor_functions_agree(name):
    image, level = picture((3, 32, 32), 3), 7
    theirs = {
        "autocontrast": lambda: functions.autocontrast(image),
        "equalise": lambda: functions.equalize(image),
        "posterise": lambda: functions.posterize(image, 6),
        "rotate": lambda: functions.rotate(image, 21),
        "sharpness": lambda: functions.adjust_sharpness(image, 0.68),
        "solarise": lambda: functions.solarize(image, 77),
    }[name]()
    ours = ALL[name](image[None] / 255, torch.tensor([level]).double(), torch.ones(1).double())[0] * 255
    off = (ours - theirs).abs() > 1.5  # it rounds, and smooths in bytes
    assert off.float().mean() < 0.01  # rotation: ties between pixels fall either way


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_weak_view_is_a_crop_of_the_reflected_image(shape):
    x = torch.rand(20, *shape, generator=torch.Generator().manual_seed(0))
    _, height, width = shape
    down, right = height // 8, width // 8
    for views in (NATURAL, DIGITS):
        for image, view in zip(x, views.weak(x, torch_stream(0)), strict=True):
            options = [
                large[:, row : row + height, column : column + width]
                for source in (image, image.flip(2))[: 1 + views.flip]
                for large in F.pad(source[None], [right, right, down, down], mode="reflect")
                for row in range(2 * down + 1)
                for column in range(2 * right + 1)
            ]
            assert any(torch.equal(view, option) for option in options)


def test_flips_and_shifts_are_even():
    x = torch.zeros(4000, 1, 16, 16)
    x[:, :, 8, 8], x[:, :, 8, 7] = 2, 1  # a mark, another left of it
    views = NATURAL.weak(x, torch_stream(0))
    place = views.flatten(1).argmax(1)
    rows, columns = place // 16, place % 16
    flipped = views[torch.arange(4000), 0, rows, columns + 1] == 1
    assert 0.46 < flipped.double().mean() < 0.54  # standard error 0.008
    shift = torch.where(flipped, columns - 7, columns - 8)
    for moves in (rows - 8, shift):
        assert (torch.bincount(moves + 2, minlength=5) / 4000 - 0.2).abs().max() < 0.03


def test_digits_are_never_mirrored():
    x = torch.zeros(100, 1, 8, 8)
    x[:, :, :, :4] = 1
    assert (DIGITS.weak(x, torch_stream(0))[:, :, :, 0] == 1).all()
    assert (NATURAL.weak(x, torch_stream(0))[:, :, :, 0] == 0).any()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
def test_cutout_square_by_square(share):
    x = torch.rand(200, 3, 12, 10, generator=torch.Generator().manual_seed(0))
    views, square = cutout(x, share, torch_stream(1)), int(share * 10)
    for image, view in zip(x, views, strict=True):
        hit = (view != image).any(0)
        assert torch.equal(view[:, ~hit], image[:, ~hit])
        assert (view[:, hit] == GREY).all()
        rows, columns = hit.any(1).nonzero()[:, 0], hit.any(0).nonzero()[:, 0]
        assert hit.sum() == len(rows) * len(columns)  # a rectangle
        for places, side in ((rows, 12), (columns, 10)):
            if square:
                whole = len(places) == square
                assert whole or (len(places) >= square // 2 and places[-1] == side - 1)  # cut off at the far edge only


def test_equal_images_come_out_different():
    x = picture((3, 32, 32))[None].repeat(50, 1, 1, 1) / 255
    for view in (NATURAL.strong, DIGITS.strong):
        views = view(x, torch_stream(0))
        assert len({image.numpy().tobytes() for image in views}) == 50
        assert views.shape == x.shape


@pytest.mark.parametrize("shape", [*SHAPES, (1, 1, 1), (3, 2, 3)], ids=str)
def test_views_stay_images_of_the_same_kind(shape):
    x = torch.rand(64, *shape, generator=torch.Generator().manual_seed(0)).contiguous(memory_format=torch.channels_last)
    before = x.clone()
    for views in (NATURAL, DIGITS):
        for view in (views.weak(x, torch_stream(0)), views.strong(x, torch_stream(0))):
            assert view.shape == x.shape
            assert view.dtype == x.dtype
            assert 0 <= view.min() <= view.max() <= 1
    assert torch.equal(x, before)


def test_the_generator_decides_everything():
    x = torch.rand(30, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    state = torch.get_rng_state()
    one, same, other = (NATURAL.strong(x, torch_stream(seed)) for seed in (0, 0, 1))
    assert one.numpy().tobytes() == same.numpy().tobytes()
    assert not torch.equal(one, other)
    assert torch.equal(state, torch.get_rng_state())


def test_operations_levels_and_signs_are_drawn_evenly(monkeypatch):
    seen = []

    def spy(name: str, x: torch.Tensor, level: torch.Tensor, sign: torch.Tensor) -> torch.Tensor:
        seen.extend(zip([name] * len(x), level.tolist(), sign.tolist(), strict=True))
        return x

    for name in ALL:
        monkeypatch.setitem(ALL, name, partial(spy, name))
    operations = tuple(name for name in ALL if name != "identity")
    Views(flip=False, operations=operations).strong(torch.zeros(10000, 1, 1, 1), torch_stream(0))
    assert abs(len(seen) / 20000 - 0.5) < 0.015  # two for each image, half of them applied; standard error 0.0035
    for values, kinds in zip(zip(*seen, strict=True), (13, 9, 2), strict=True):
        counts = np.unique(values, return_counts=True)[1]
        assert len(counts) == kinds
        assert np.abs(counts / len(seen) * kinds - 1).max() < 0.15


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"operations": ("rotate", "invert")}, "unknown operations invert; allowed: autocontrast, "),
        ({"operations": ()}, "no operations"),
        ({"cutout": 16}, "found cutout = 16; allowed: a share from 0 to 1"),
    ],
)
def test_bad_input_is_one_line(change, words):
    with pytest.raises(UserError, match=words):
        Views(**{"flip": True, "operations": ("rotate",)} | change)
