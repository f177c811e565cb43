"""The weights of a network as text, so that a record can hold them: all numbers in order, as float32, in base64."""

import base64

import numpy as np
import torch
from torch import nn

from bench.core.errors import UserError


def as_text(net: nn.Module) -> str:
    """Parameters and buffers; exact for float32, and for counts below 2^24."""
    numbers = torch.cat([tensor.detach().cpu().float().flatten() for tensor in net.state_dict().values()])
    return base64.b64encode(numbers.numpy().astype("<f4").tobytes()).decode()


def load_text(net: nn.Module, text: str) -> None:
    """Give `net` the weights that `as_text` wrote of a network of the same shape."""
    state = net.state_dict()
    numbers = torch.from_numpy(np.frombuffer(base64.b64decode(text), dtype="<f4").copy())
    if len(numbers) != (size := sum(tensor.numel() for tensor in state.values())):
        raise UserError(
            f"these are {len(numbers):,} weights, but the network has {size:,}; run the cell that made them again"
        )
    parts = numbers.split([tensor.numel() for tensor in state.values()])
    net.load_state_dict(
        {
            name: part.view(tensor.shape).to(tensor.dtype)
            for (name, tensor), part in zip(state.items(), parts, strict=True)
        }
    )
