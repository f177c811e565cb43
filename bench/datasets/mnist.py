"""MNIST: handwritten digits of 28 x 28 pixels (LeCun et al. 1998)."""

from pathlib import Path

import numpy as np

SHAPE = (1, 28, 28)
CLASSES = 10
SIZES = (60_000, 10_000)
MEAN = (0.0,)  # raw pixels in [0, 1] (released code of the thesis)
STD = (1.0,)


def fetch(folder: Path) -> dict[str, np.ndarray]:
    from bench.learn.vision import torchvision

    train, test = (torchvision.datasets.MNIST(folder, train=train, download=True) for train in (True, False))
    return {
        "x_train": train.data.numpy()[:, None],
        "y_train": train.targets.numpy().astype(np.uint8),
        "x_test": test.data.numpy()[:, None],
        "y_test": test.targets.numpy().astype(np.uint8),
    }
