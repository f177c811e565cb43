"""A kernel on disk: a .npy file filled tile by tile, and beside it which tiles are done.

A tile is written and flushed before it is entered in the list, and the list is replaced as a whole. So whatever the
list names is on disk, and a kill at any moment costs at most the tile under way.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from bench.core.errors import UserError
from bench.core.files import replacing


def identity(net: nn.Module, x1: Tensor, x2: Tensor | None, output: str | int, layers: Sequence[str] | None) -> str:
    """A hash of what decides the kernel: modules, weights, what is trainable, inputs and options; not the code of a
    module's `forward`.
    """
    flags = [(name, _flags(module)) for name, module in net.named_modules()]  # forward passes may depend on them
    digest = hashlib.sha256(repr((net, flags, output, layers and list(layers))).encode())
    trainable = [name for name, parameter in net.named_parameters() if parameter.requires_grad]
    digest.update(repr(trainable).encode())
    for name, tensor in [*net.state_dict().items(), ("x1", x1), ("x2", x2)]:
        if tensor is not None:
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _flags(module: nn.Module) -> list[tuple[str, bool | int | float | str]]:
    """A module's plain attributes, which its repr need not show."""
    plain = ((key, value) for key, value in vars(module).items() if isinstance(value, bool | int | float | str))
    return sorted((key, value) for key, value in plain if not key.startswith("_") and key != "training")


class Store:
    """The file of one kernel, new or continued."""

    def __init__(self, path: Path, kernel: str, shape: tuple[int, int], dtype: torch.dtype, tile: int):
        self.path, self.list, self.kernel, self.tile = path, path.with_name(f"{path.name}.done"), kernel, tile
        self.done: set[tuple[int, int]] = set()
        if path.exists():
            self._continue()
        else:
            self._save_list()
            with replacing(path) as part:
                kind = torch.empty(0, dtype=dtype).numpy().dtype
                np.lib.format.open_memmap(part, "w+", kind, shape).flush()
        self.array = np.load(path, mmap_mode="r+")

    def _continue(self) -> None:
        try:
            saved = json.loads(self.list.read_text())
        except FileNotFoundError:
            saved = {"kernel": None}
        if saved["kernel"] != self.kernel:
            raise UserError(f"{self.path}: holds something else than this kernel; remove it or choose another file")
        self.tile, self.done = saved["tile"], {(i, j) for i, j in saved["done"]}

    def _save_list(self) -> None:
        with replacing(self.list) as part:
            part.write_text(json.dumps({"kernel": self.kernel, "tile": self.tile, "done": sorted(self.done)}))

    def put(self, i: int, j: int, block: tuple[slice, slice], theta: Tensor, both: bool) -> None:
        """Write the tile that starts at points (i, j), with its mirror image if `both`."""
        values = theta.cpu().numpy()
        self.array[block] = values
        if both and i != j:
            self.array[block[1], block[0]] = values.T
        self.array.flush()
        self.done.add((i, j))
        self._save_list()

    def map(self) -> Tensor:
        """The whole kernel; writing to it leaves the file alone."""
        return torch.from_numpy(np.load(self.path, mmap_mode="c"))
