"""The networks of the papers, one module each, and the contract every one of them keeps.

    net = build("wrn+layers=2", (3, 32, 32), classes=10, width=160, generator=torch_stream(seed, "init"))

A net module states OPTIONS (see `bench.core.registry`) and WIDTH, what its `width` counts, and offers
`build(input_shape, classes, width, **options)`. What it returns keeps this contract:

    net.features(x)   (N, C, H, W) -> (N, d), the penultimate features
    net.head          nn.Linear(d, O) with bias
    net(x)            equals net.head(net.features(x)), (N, O); draws nothing, in training neither

The kernels read gradients through forward hooks, hence
- every parameter sits in an nn.Linear, nn.Conv2d, nn.BatchNorm2d or (activation=prelu only) nn.PReLU that is called
  exactly once per forward pass; residual sums may be functional;
- nothing is computed in place, though kernels allow for it: activations are modules of their own and sums are `a + b`;
- batch normalisation is in evaluation mode whenever a kernel is computed, so that a row never depends on its batch.
  At epoch 0 the running statistics are 0 and 1; the pNTK study also measures a copy that has seen the data once;
- global average pooling is a plain mean over (2, 3), which is deterministic on CUDA.
"""

import torch
from torch import nn

from bench.core import registry
from bench.core.errors import UserError


def build(
    spec: str, input_shape: tuple[int, int, int], classes: int, width: int, generator: torch.Generator
) -> nn.Module:
    """The net a spec names, its weights a function of the generator's seed alone.

    torch layers draw from the global generator, so that one is borrowed: seeded here, put back after. Only the CPU's,
    since nets are built there (torch.manual_seed would also reseed every GPU). The passed generator is not advanced.
    """
    if width < 1:
        raise UserError(f"{spec}: found width {width}; allowed: a whole number >= 1")
    # Found by name at run time: a static import here would tie the results of every net to the code of all.
    module, options = registry.load("nets", spec)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(generator.initial_seed())
        return module.build(input_shape, classes, width, **options)
