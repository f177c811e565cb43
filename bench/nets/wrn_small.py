"""Small WideResNets of the family of wrn-28 for the reduced scales of NPC: same units, activation and initialisation.

For small images of few steps: the stem may stride, and batch normalisation averages over some twenty batches, since
`wrn-28`'s thousand is more than a short training has. Of `layers=3` and width 128 the layers have 16, 32 and 128
channels; the last width is the dimension of the features, which NPC's criterion needs to exceed the number of labels.
"""

from functools import partial

from torch import nn

from bench.nets._fan_out import fan_out
from bench.nets._parts import initialise
from bench.nets._wrn import WideResNet

NAME = "wrn-small"
WIDTH = "channels of the last layer; the stem has 16, further layers 16, 32, ..."
OPTIONS = {"layers": 3, "blocks": 1, "stride": 1}
MOMENTUM = 0.05  # the weight of the new batch


def build(input_shape: tuple[int, int, int], classes: int, width: int, layers: int, blocks: int, stride: int):
    net = WideResNet(
        input_shape[0],
        classes,
        widths=(16, *(16 * 2**layer for layer in range(layers - 1)), width),
        blocks=blocks,
        act=partial(nn.LeakyReLU, 0.1),
        norm=partial(nn.BatchNorm2d, momentum=MOMENTUM),
        bias=False,
        early_stride=True,
        shared_first=True,
    )
    net.stem.stride = (stride, stride)
    return initialise(net, fan_out)
