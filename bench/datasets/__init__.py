"""The datasets, one module each, found by bench.core.registry.

A dataset module states, as literals, SHAPE (C, H, W), CLASSES, SIZES (train, test), MEAN and STD per channel of
pixels in [0, 1], optionally RELEASED_STATISTICS (mean, std) where the thesis' released code normalises otherwise, and
defines `fetch(folder)`: the arrays x_train, y_train, x_test, y_test (uint8, N x C x H x W), downloaded if need be.
"""
