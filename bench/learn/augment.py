"""Random views of images, a whole batch at a time."""

import torch
import torch.nn.functional as F
from torch import Tensor

PADDING = 4  # pixels on each side, before a crop


def flip_crop(x: Tensor, generator: torch.Generator) -> Tensor:
    """Horizontal flip with probability 1/2, then a random crop after zero padding; x is (N, C, H, W)."""
    n, _, height, width = x.shape
    flip = (torch.rand(n, generator=generator) < 0.5).to(x.device)
    shift = torch.randint(0, 2 * PADDING + 1, (2, n), generator=generator).to(x.device)  # rows, columns
    x = torch.where(flip.view(-1, 1, 1, 1), x.flip(3), x)
    x = F.pad(x, [PADDING] * 4)  # (N, C, H + 8, W + 8)
    rows = shift[0, :, None] + torch.arange(height, device=x.device)  # (N, H)
    columns = shift[1, :, None] + torch.arange(width, device=x.device)  # (N, W)
    each = torch.arange(n, device=x.device)[:, None, None]
    return x.permute(0, 2, 3, 1)[each, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)  # channels last
