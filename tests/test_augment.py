"""Flip and crop against a loop over images."""

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.core.seeds import torch_stream
from bench.learn.augment import flip_crop


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(3, 9), st.integers(0, 99))
def test_every_view_is_a_shifted_possibly_mirrored_image(n, channels, side, seed):
    x = torch.rand(n, channels, side, side + 1, generator=torch.Generator().manual_seed(seed)) + 0.1
    views = flip_crop(x, torch_stream(seed, "augment"))
    assert views.shape == x.shape
    for image, view in zip(x, views, strict=True):
        options = [
            F.pad(source, [4] * 4)[:, row : row + side, column : column + side + 1]
            for source in (image, image.flip(2))
            for row in range(9)
            for column in range(9)
        ]
        assert any(torch.equal(view, option) for option in options)


def test_flips_are_even_and_shifts_cover_all_places():
    x = torch.zeros(4000, 1, 9, 9)
    x[:, :, 4, 4], x[:, :, 3, 4], x[:, :, 4, 3] = 3, 1, 2  # a centre, a mark above it and one left of it
    views = F.pad(flip_crop(x, torch_stream(0)), [1] * 4)  # the centre never leaves the image, its marks may
    centre = views.flatten(1).argmax(1)
    rows, columns = centre // 11 - 1, centre % 11 - 1
    assert sorted(rows.unique().tolist()) == sorted(columns.unique().tolist()) == list(range(9))
    image, inside = torch.arange(4000), (columns > 0) & (columns < 8)
    left, right = (views[image, 0, rows + 1, columns + 1 + side] == 2 for side in (-1, 1))
    assert torch.equal((left | right)[inside], torch.ones(int(inside.sum()), dtype=torch.bool))
    above = views[image, 0, rows, columns + 1] == 1
    assert above[rows > 0].all()  # never upside down
    assert 0.46 < right[inside].double().mean().item() < 0.54  # flipped; standard error 0.009
