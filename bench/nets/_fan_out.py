"""The law of the weights of WRN-28 and its small relatives."""

import torch
from torch import nn


def fan_out(weight: torch.Tensor) -> None:
    """Convolutions N(0, 2 / (k^2 out)), the dense head Glorot normal."""
    if weight.dim() == 4:
        nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")
    else:
        nn.init.xavier_normal_(weight)
