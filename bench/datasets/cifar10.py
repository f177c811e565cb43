"""CIFAR-10: ten classes of natural images, 32 x 32 pixels (Krizhevsky 2009)."""

from pathlib import Path

import numpy as np

SHAPE = (3, 32, 32)
CLASSES = 10
SIZES = (50_000, 10_000)
MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2023, 0.1994, 0.2010)


def fetch(folder: Path) -> dict[str, np.ndarray]:
    from bench.learn.vision import torchvision

    return cifar_arrays(torchvision.datasets.CIFAR10, folder)


def cifar_arrays(dataset: type, folder: Path) -> dict[str, np.ndarray]:
    """Both splits of a CIFAR class of torchvision, channels first."""
    train, test = (dataset(folder, train=train, download=True) for train in (True, False))
    return {
        "x_train": train.data.transpose(0, 3, 1, 2),
        "y_train": np.array(train.targets, np.uint8),
        "x_test": test.data.transpose(0, 3, 1, 2),
        "y_test": np.array(test.targets, np.uint8),
    }
