"""torchvision, importable also where its compiled operators do not fit the installed torch.

Wheels of torchvision come with operators compiled for CUDA; beside a CPU build of torch they cannot load, and
`import torchvision` then fails because two operators it describes do not exist. The suite uses none of its operators
(only datasets), so declaring the two schemas is enough. Nothing is done where the plain import works.
"""

import sys

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)

try:
    import torchvision
except RuntimeError as error:
    if "torchvision::" not in str(error):
        raise
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]  # half-imported
    _library = torch.library.Library("torchvision", "DEF")  # kept alive: the schemas go when it goes
    for schema in _SCHEMAS:
        _library.define(schema)
    import torchvision

__all__ = ["torchvision"]
