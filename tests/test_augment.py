"""Flip and crop against a loop over images."""

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from bench.core.seeds import torch_stream
from bench.learn.augment import flip_crop


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
    x[:, :, 4, 3] = 1  # flipped, this pixel is in column 5
    rows = flip_crop(x, torch_stream(0)).flatten(1).argmax(1) // 9
    assert sorted(rows.unique().tolist()) == list(range(9))
    flat = flip_crop(x, torch_stream(1), padding=0).flatten(1).argmax(1)
    flipped = (flat == 4 * 9 + 5).double().mean().item()
    assert 0.46 < flipped < 0.54  # standard error 0.008
    assert sorted(flat.unique().tolist()) == [4 * 9 + 3, 4 * 9 + 5]
