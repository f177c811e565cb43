"""A kernel on disk: a .npy file filled tile by tile, and beside it which tiles are done.

    theta.npy              the kernel
    theta.npy.done         whose kernel it is, its tile size, and the list of tiles in it
    theta.npy.tiles-...    a folder of tiles that parts have finished and that are not yet in it, a file for each

A tile is written and flushed before it is entered in the list, and the list is replaced as a whole. So whatever the
list names is on disk, and a kill at any moment costs at most the tile under way.

Parts do not write to theta.npy: where tiles meet, they share pages, and over NFS the page of one machine would undo
what another wrote. Each of their tiles is a file, whole or absent, so that no two ever write to the same one.
"""

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from bench.core.errors import UserError
from bench.core.files import creating, replacing


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
    """The files of one kernel, new or continued. A point has `rows` rows."""

    def __init__(self, path: Path, kernel: str, tile: int, rows: int, symmetric: bool):
        self.path, self.list, self.kernel = path, path.with_name(f"{path.name}.done"), kernel
        self.rows, self.symmetric = rows, symmetric
        if not path.exists() and not self.list.exists():  # the list comes first, so a file without one is foreign
            with creating(self.list) as part:
                part.write_text(self._list(tile, set()))
        saved = json.loads(self.list.read_text()) if self.list.exists() else {"kernel": None}
        if saved["kernel"] != kernel:
            files = f"remove it and {self.list.name}, or choose another file"
            raise UserError(f"{path}: holds something else than this kernel; {files}")
        self.tile = saved["tile"]  # of whoever came first
        self.done = {(i, j) for i, j in saved["done"]} if path.exists() else set()
        self.aside = path.with_name(f"{path.name}.tiles-{kernel[:12]}-{self.tile}")

    def _list(self, tile: int, done: set[tuple[int, int]]) -> str:
        return json.dumps({"kernel": self.kernel, "tile": tile, "done": sorted(done)})

    def _save_list(self) -> None:
        with replacing(self.list) as part:
            part.write_text(self._list(self.tile, self.done))

    def set_aside(self, i: int, j: int, theta: Tensor) -> None:
        """Write the tile that starts at points (i, j) to a file of its own."""
        with replacing(self._file(i, j)) as part, part.open("wb") as file:
            np.save(file, theta.cpu().numpy())

    def has_aside(self, i: int, j: int) -> bool:
        return self._file(i, j).exists()

    def _file(self, i: int, j: int) -> Path:
        return self.aside / f"{i}-{j}.npy"

    def open(self, shape: tuple[int, int], dtype: torch.dtype) -> None:
        """Make the kernel's file, if need be, and put in what parts have finished."""
        if not self.path.exists():
            self._save_list()  # empty, whatever that of a removed file was
            with creating(self.path) as part:
                kind = torch.empty(0, dtype=dtype).numpy().dtype
                np.lib.format.open_memmap(part, "w+", kind, shape).flush()
        self.array = np.load(self.path, mmap_mode="r+")
        for file in sorted(self.aside.glob("[0-9]*.npy")):
            i, j = map(int, file.stem.split("-"))
            if (i, j) not in self.done:
                self._put(i, j, np.load(file))

    def put(self, i: int, j: int, theta: Tensor) -> None:
        """Write the tile that starts at points (i, j), with its mirror image if the kernel is symmetric."""
        self._put(i, j, theta.cpu().numpy())

    def _put(self, i: int, j: int, values: np.ndarray) -> None:
        rows, columns = (slice(k * self.rows, k * self.rows + n) for k, n in zip((i, j), values.shape, strict=True))
        self.array[rows, columns] = values
        if self.symmetric and i != j:
            self.array[columns, rows] = values.T
        self.array.flush()
        self.done.add((i, j))
        self._save_list()

    def close(self) -> Tensor:
        """The whole kernel; writing to it leaves the file alone. What parts have set aside is in it."""
        shutil.rmtree(self.aside, ignore_errors=True)
        return torch.from_numpy(np.load(self.path, mmap_mode="c"))
