"""Neural tangent kernels, empirical and of infinite width, and regression with them: `from bench.kernels import gram`.

    empirical.py    Theta = J J^T of a net on data: the full eNTK, the pNTK, a single output, the trace; start here
    tangents.py     what a net's layers keep of given points: hooks, passes, checks
    backward.py     a backward pass of all outputs in lockstep, along autograd's graph
    layers.py       what each layer type adds to Theta, derived from J J^T
    convolution.py  the same for convolutions, in three ways, and the rule that chooses
    tail.py         the same for the convolution before mean and read-out: one gradient does for all outputs
    norm.py         the same for batch norm, and a faster pass through it
    pages.py        freed memory stays with the process
    store.py        a kernel on disk, written tile by tile and resumed after a kill
    parts.py        which tiles fall to which of several processes
    infinite.py     kernels of nets of infinite width
    cholesky.py     factors of large kernels in place
    spectrum.py     the largest and the smallest eigenvalue
    extreme.py      of many batches the one whose Gram matrix has the largest smallest eigenvalue
    regression.py   kernel regression
    lookahead.py    the effect of one more label, for all candidates at once

Letters: N points, O outputs, B backward vectors, S rows of Theta per point, M = B / S, P parameters; of a convolution C
output channels, T output positions, D patch size (input channels x kernel height x kernel width).
"""

import importlib
from typing import Any

_OFFERED = {"gram": "empirical", "regress": "regression"}


def __getattr__(name: str) -> Any:
    """Found when asked for, so that a kernel of infinite width does not depend on the engine of empirical ones."""
    if name not in _OFFERED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_OFFERED[name]}"), name)
