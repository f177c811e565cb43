"""Maps from network outputs to class probabilities. A network trained on squared loss has no natural one."""

import torch
from torch import Tensor


def minmax(outputs: Tensor) -> Tensor:
    """Scale each row to [0, 1], raise zeros to 1e-6, divide by the sum (the thesis' released code); (N, O)."""
    low, high = outputs.min(1, keepdim=True).values, outputs.max(1, keepdim=True).values
    scaled = torch.where(high > low, (outputs - low) / (high - low), torch.ones_like(outputs))  # constant row: uniform
    scaled = scaled.clamp(min=1e-6)
    return scaled / scaled.sum(1, keepdim=True)


def simplex(outputs: Tensor) -> Tensor:
    """Euclidean projection of each row on the probability simplex; (N, O)."""
    ordered = outputs.sort(1, descending=True).values  # u_1 >= u_2 >= ...
    count = torch.arange(1, outputs.shape[1] + 1, device=outputs.device)
    shift = (1 - ordered.cumsum(1)) / count  # lambda_j = (1 - sum_{i<=j} u_i) / j
    rho = (ordered + shift > 0).sum(1, keepdim=True)  # largest j with u_j + lambda_j > 0 (they come first)
    return (outputs + shift.gather(1, rho - 1)).clamp(min=0)


def softmax(outputs: Tensor) -> Tensor:
    return outputs.softmax(1)


MAPS = {"minmax": minmax, "softmax": softmax}  # those that strategies offer by name
