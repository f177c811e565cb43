"""CIFAR-100: a hundred classes of natural images, 32 x 32 pixels (Krizhevsky 2009)."""

from pathlib import Path

import numpy as np

from bench.datasets.cifar10 import cifar_arrays

SHAPE = (3, 32, 32)
CLASSES = 100
SIZES = (50_000, 10_000)
MEAN = (0.5071, 0.4867, 0.4408)
STD = (0.2675, 0.2565, 0.2761)
# The released code looks for "cifar10" in the name and so never reaches its CIFAR-100 branch.
RELEASED_STATISTICS = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))


def fetch(folder: Path) -> dict[str, np.ndarray]:
    from bench.learn.vision import torchvision

    return cifar_arrays(torchvision.datasets.CIFAR100, folder)
