"""WRN-28-k, the net of NPC section 5 (k = 2) and of FixMatch: three layers of four units, leaky ReLU of slope 0.1.

NPC takes it from Oliver et al. 2018 without details, and the public codes differ in small things: `variant` names whose
are followed. All of them draw 3x3 and 1x1 convolutions with variance 2 / fan-out and the head by Glorot's rule, put the
stride on the first convolution of a unit, and let the net's very first BN and activation serve the shortcut too.

Not followed: in kekmodel's code the first units of layers 2 and 3 convolve their raw input, which leaves their first BN
without effect (here, as in the other three codes, they convolve the activated input); DARP's rotation head, unused
by FixMatch; TensorFlow's uneven padding of strided convolutions.
"""

from functools import partial

from torch import nn

from bench.nets._fan_out import fan_out
from bench.nets._parts import initialise
from bench.nets._wrn import WideResNet

NAME = "wrn-28"
WIDTH = "widening factor k: stem of 16, layers of 16k, 32k and 64k channels"
OPTIONS = {"variant": ("kekmodel", "google", "oliver", "darp")}

# Momentum in PyTorch's sense, the weight of the new batch. DARP means 0.001 and eps 1e-3 but never passes them on.
VARIANTS = {
    "kekmodel": {"bias": False, "momentum": 0.001, "eps": 1e-5},  # kekmodel/FixMatch-pytorch
    "google": {"bias": True, "momentum": 0.001, "eps": 1e-3},  # google-research/fixmatch
    "oliver": {"bias": False, "momentum": 0.001, "eps": 1e-3},  # brain-research/realistic-ssl-evaluation
    "darp": {"bias": False, "momentum": 0.1, "eps": 1e-5},  # bbuing9/DARP
}


def build(input_shape: tuple[int, int, int], classes: int, width: int, variant: str) -> nn.Module:
    chosen = VARIANTS[variant]
    net = WideResNet(
        input_shape[0],
        classes,
        widths=(16, 16 * width, 32 * width, 64 * width),
        blocks=4,
        act=partial(nn.LeakyReLU, 0.1),
        norm=partial(nn.BatchNorm2d, momentum=chosen["momentum"], eps=chosen["eps"]),
        bias=chosen["bias"],
        early_stride=True,
        shared_first=True,
    )
    return initialise(net, fan_out)
