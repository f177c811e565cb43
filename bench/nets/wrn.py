"""WideResNet with one, two or three block layers, the main net of the look-ahead experiments (thesis 2.4).

The thesis says "one or two layers and maximum width of 640". Layout of the released code: the stem has 16k channels
and each layer doubles them (one layer, k = 20: 320, 640; two layers, k = 10: 160, 320, 640); every convolution has a
bias, the second one of a unit carries the stride, weights are as PyTorch draws them. The depth is not reported; one
unit per layer, depth 10 in the released code's count, is our choice.

`shortcut=released` leaves out the identity, as the released code does: where a unit keeps the shape its input is not
added back, so from the second unit of a layer on the net is not residual. With `blocks=1` there is no such unit.
"""

from torch import nn

from bench.core.errors import UserError
from bench.nets._wrn import WideResNet

WIDTH = (
    "channels of the last layer, the thesis' maximum width: a multiple of 2^layers, halved layer by layer to the stem"
)
OPTIONS = {
    "layers": 1,
    "blocks": 1,
    "shortcut": ("identity", "released"),
}


def build(
    input_shape: tuple[int, int, int],
    classes: int,
    width: int,
    layers: int,
    blocks: int,
    shortcut: str,
) -> nn.Module:
    if layers > 3:
        raise UserError(f"wrn+layers: found {layers}; allowed: 1, 2, 3")
    if width % 2**layers:
        raise UserError(f"wrn+layers={layers}: found width {width}; allowed: multiples of {2**layers}")
    widths = [width // 2**halvings for halvings in range(layers, -1, -1)]  # stem, layer 1, ..., last layer
    return WideResNet(input_shape[0], classes, widths, blocks, identity=shortcut == "identity")
