"""torch's SGD, without its compiler: the first step of any torch optimiser imports torch._dynamo, a second per process.

Nothing here is compiled, so the import buys nothing. The arithmetic is torch's own. torch is pinned; a test compares
the weights with those of torch.optim.SGD and looks for the import.
"""

import inspect

import torch

_step = inspect.unwrap(torch.optim.SGD.step)  # below the decorator that imports the compiler

for _name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):
    # Decorated by torch._disable_dynamo, which imports the compiler to have the function left alone by it.
    _plain = inspect.unwrap(getattr(torch.optim.Optimizer, _name))
    _plain.__dict__.setdefault("__dynamo_disable", _plain)


class SGD(torch.optim.SGD):
    @torch.no_grad()
    def step(self) -> None:
        _step(self)
