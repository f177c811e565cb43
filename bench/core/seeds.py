"""Named random streams: every draw of a cell comes from its seed and the name of what is drawn.

A stream is addressed, not advanced: `stream(3, "batches", cycle, epoch)` is the same generator whenever and
wherever it is asked for. So a resumed run needs no saved generator state, two strategies of one seed start from
the same initial labels and weights, and drawing more of one thing never shifts another.

Streams in use: data (initial labels, candidate subsets), init (weights), batches, augment, query (the strategy).
"""

import hashlib

import numpy as np
import torch


def _entropy(seed: int, *name: str | int) -> int:
    return int.from_bytes(hashlib.sha256(repr((seed, *name)).encode()).digest()[:16])


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """The numpy generator of one named stream."""
    return np.random.default_rng(_entropy(seed, *name))


def torch_stream(seed: int, *name: str | int) -> torch.Generator:
    """The torch generator (on the CPU, whatever the device) of one named stream."""
    return torch.Generator().manual_seed(_entropy(seed, *name) % 2**63)
