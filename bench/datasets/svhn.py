"""SVHN: cropped house numbers of 32 x 32 pixels (Netzer et al. 2011), without the `extra` split."""

from pathlib import Path

import numpy as np

SHAPE = (3, 32, 32)
CLASSES = 10
SIZES = (73_257, 26_032)
MEAN = (0.4914, 0.4822, 0.4465)  # CIFAR-10's, as the released code chooses
STD = (0.2023, 0.1994, 0.2010)


def fetch(folder: Path) -> dict[str, np.ndarray]:
    from bench.learn.vision import torchvision

    train, test = (torchvision.datasets.SVHN(folder, split=split, download=True) for split in ("train", "test"))
    return {
        "x_train": train.data,
        "y_train": train.labels.astype(np.uint8),
        "x_test": test.data,
        "y_test": test.labels.astype(np.uint8),
    }
