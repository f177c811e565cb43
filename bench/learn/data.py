"""Canonical datasets: data/<name>.npz with x_train, y_train, x_test, y_test (uint8, N x C x H x W), and their use.

The file is made once by `python -m bench data <name>`; a run reads nothing else. Arrays are read without pickle.
A file smaller than the official dataset is accepted and marked partial wherever its results are shown.
"""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from bench.core import registry
from bench.core.errors import UserError
from bench.core.files import replacing

KEYS = ("x_train", "y_train", "x_test", "y_test")


@dataclass
class Data:
    """A dataset in memory; images stay uint8 and are pooled and normalised on demand."""

    name: str
    arrays: dict[str, torch.Tensor]
    classes: int
    average_pool: int
    mean: torch.Tensor  # (C, 1, 1)
    std: torch.Tensor  # (C, 1, 1)
    partial: bool
    checksum: str

    def images(self, split: str, indices: np.ndarray | slice = slice(None)) -> torch.Tensor:
        """Normalised float images of a split, `(n, C, h, w)`, channels last in memory (faster convolutions)."""
        x = self.arrays[f"x_{split}"][indices].float() / 255  # (n, C, H, W)
        if self.average_pool > 1:
            x = F.avg_pool2d(x, self.average_pool)  # (n, C, h, w)
        return ((x - self.mean) / self.std).contiguous(memory_format=torch.channels_last)

    def labels(self, split: str, indices: np.ndarray | slice = slice(None)) -> torch.Tensor:
        return self.arrays[f"y_{split}"][indices].long()  # (n,)

    def size(self, split: str) -> int:
        return len(self.arrays[f"y_{split}"])

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, h, w) of the images that `images` gives."""
        channels, height, width = self.arrays["x_train"].shape[1:]
        return channels, height // self.average_pool, width // self.average_pool

    def describe(self) -> dict:
        """What every record says of the data behind it."""
        return {
            "name": self.name,
            "train": self.size("train"),
            "test": self.size("test"),
            "partial": self.partial,
            "average_pool": self.average_pool,
            "checksum": self.checksum,
        }


def load(
    name: str, root: str | Path = "data", average_pool: int = 1, statistics: str = "corrected", device: str = "cpu"
) -> Data:
    """The dataset `name` from its canonical file below `root`."""
    path = Path(root) / f"{name}.npz"
    if not path.is_file():
        raise UserError(f"{path} is missing; type: python -m bench data {name} --root {root}")
    arrays = read(path, name)
    facts = registry.components("datasets")[name].constants
    if min(facts["SHAPE"][1:]) < average_pool:
        raise UserError(f"{name}: images of {facts['SHAPE'][1:]} pixels cannot be average-pooled by {average_pool}")
    mean, std = (facts["MEAN"], facts["STD"])
    if statistics == "released":
        mean, std = facts.get("RELEASED_STATISTICS", (mean, std))
    column = lambda values: torch.tensor(values, device=device).view(-1, 1, 1)  # noqa: E731
    return Data(
        name=name,
        arrays={key: torch.from_numpy(array).to(device) for key, array in arrays.items()},
        classes=facts["CLASSES"],
        average_pool=average_pool,
        mean=column(mean),
        std=column(std),
        partial=(len(arrays["y_train"]), len(arrays["y_test"])) != facts["SIZES"],
        checksum=checksum(arrays),
    )


def source(names: list[str], settings: dict, root: str | Path) -> Callable[[torch.device], Data | None]:
    """What gives a cell its dataset on a device, presented as its settings say; None for a cell that uses none."""
    if not names:
        return lambda device: None
    if len(names) > 1:
        raise UserError(f"a cell uses at most one dataset, found {', '.join(names)}")
    name = names[0]
    shown = {key: settings[key] for key in ("average_pool", "statistics") if key in settings}
    return lambda device: load(name, root, **shown, device=device)


def read(path: Path, name: str, remedy: str | None = None) -> dict[str, np.ndarray]:
    """The arrays of a canonical file, or a UserError that says what is wrong with it and what to do."""
    remedy = remedy or f"remove it and type: python -m bench data {name} --root {path.parent}"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: np.ascontiguousarray(file[key]) for key in KEYS}
    except Exception as error:  # zip, zlib, header and pickle errors of every kind: the file is no good
        reason = str(error).partition(". If you trust")[0]  # numpy's advice to read it unsafely is not ours
        raise UserError(f"{path} is damaged or no canonical file ({reason}); {remedy}") from None
    if problem := _problem(arrays, name):
        raise UserError(f"{path}: {problem}; {remedy}")
    return arrays


def _problem(arrays: dict[str, np.ndarray], name: str) -> str | None:
    facts = registry.components("datasets")[name].constants
    for split, official in zip(("train", "test"), facts["SIZES"], strict=True):
        x, y = arrays[f"x_{split}"], arrays[f"y_{split}"]
        if x.dtype != np.uint8 or y.dtype != np.uint8:
            return f"x_{split} and y_{split} are {x.dtype} and {y.dtype}, not uint8"
        if x.ndim != 4 or x.shape[1:] != facts["SHAPE"]:
            return f"x_{split} has shape {x.shape}, not N x {' x '.join(map(str, facts['SHAPE']))}"
        if y.shape != (len(x),) or not len(x):
            return f"y_{split} has shape {y.shape} for {len(x)} images"
        if len(x) > official:
            return f"{len(x)} {split} images, more than the {official} that {name} has"
        if y.max() >= facts["CLASSES"]:
            return f"y_{split} has the label {y.max()}, but there are {facts['CLASSES']} classes, counted from 0"
    return None


def checksum(arrays: dict[str, np.ndarray]) -> str:
    """sha256 over the contents (a zip file's own bytes carry dates)."""
    digest = hashlib.sha256()
    for key in KEYS:
        digest.update(f"{key} {arrays[key].shape} ".encode())
        digest.update(arrays[key].data)
    return digest.hexdigest()


def prepare(name: str, root: str | Path = "data", source: str | Path | None = None) -> Path:
    """Make `<root>/<name>.npz`: by download, or from a canonical file already on disk."""
    if name not in registry.components("datasets"):
        raise UserError(registry.unknown("dataset", name, registry.components("datasets")))
    path = Path(root) / f"{name}.npz"
    if path.is_file():
        read(path, name)
        if source is not None:
            raise UserError(f"{path} is there already; remove it first to take {source} instead")
        return path
    with replacing(path) as part:
        if source is not None:
            if not Path(source).is_file():
                raise UserError(f"{source}: no such file")
            read(Path(source), name, "a canonical file has x_train, y_train, x_test, y_test; uint8, N x C x H x W")
            shutil.copyfile(source, part)
        else:
            arrays = {key: np.ascontiguousarray(array) for key, array in _fetch(name, path).items()}
            if problem := _problem(arrays, name):
                raise UserError(f"the download of {name} is not as expected: {problem}")
            with part.open("wb") as file:
                np.savez(file, **arrays)
    return path


def _fetch(name: str, path: Path) -> dict[str, np.ndarray]:
    module, _ = registry.load("datasets", name)
    try:
        return module.fetch(path.parent / "raw")
    except (OSError, RuntimeError) as error:  # URLError is an OSError; a wrong checksum is a RuntimeError
        raise UserError(
            f"{name} could not be downloaded ({str(error).strip()}). Two ways out: where there is internet, type "
            f"python -m bench data {name}, and copy its {path.name} to {path}; or, with a canonical file of your own "
            f"(x_train, y_train, x_test, y_test; uint8, N x C x H x W), type here "
            f"python -m bench data {name} --root {path.parent} --from FILE"
        ) from None
