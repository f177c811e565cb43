"""digits: 1,797 handwritten digits of 8 x 8 pixels that come with scikit-learn; needs no download."""

from pathlib import Path

import numpy as np

SHAPE = (1, 8, 8)
CLASSES = 10
SIZES = (1300, 497)
MEAN = (0.0,)  # raw pixels, as the thesis' code does for MNIST
STD = (1.0,)


def fetch(folder: Path) -> dict[str, np.ndarray]:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)  # (1797, 64), values 0..16
    pixels = np.round(images * 255 / 16).astype(np.uint8).reshape(-1, *SHAPE)  # (1797, 1, 8, 8)
    split = train_test_split(pixels, labels.astype(np.uint8), test_size=SIZES[1], stratify=labels, random_state=0)
    x_train, x_test, y_train, y_test = split
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
