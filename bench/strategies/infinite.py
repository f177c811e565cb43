"""infinite: MLMOC with an infinite-width NTK for the network's own (thesis 2.4 "NN Inf NTK", Borsos et al. 2021).

The network is trained as usual and gives the pseudo-labels; only the kernel is another. The thesis says neither which
infinite network it is of, nor whether the prior mean is the network or zero. `kernel=fcn` is that of three hidden ReLU
layers on the flattened image, `kernel=convnet` that of eight 3x3 convolutions with a flatten read-out. The kernel of
the thesis' own network, with global average pooling, needs all pairs of pixels of every pair of images in every layer
(38,416 numbers for 14x14 pixels, 614,656 for 28x28): out of reach for thousands of images. The convolutional one with
flatten needs one number per pixel: 8 CPU minutes a query for 4,000 candidates of 14x14, half an hour for 28x28.

`prior=network` is (2.11), and changes are measured from the network's outputs as in (2.13). With `prior=zero` the
network is no part of the model, and they are measured from the kernel regression's.
"""

import numpy as np
import torch

from bench.kernels.infinite import convnet, fcn
from bench.learn.train import predict
from bench.strategies import Query, top
from bench.strategies._lookahead import OBJECTIVES, images, known

OPTIONS = {"kernel": ("fcn", "convnet"), "prior": ("network", "zero")}
KERNELS = {"fcn": fcn, "convnet": convnet}


def select(query: Query, size: int, stream: np.random.Generator, kernel: str, prior: str) -> np.ndarray:
    theta = KERNELS[kernel](images(query)).ntk  # (L + U, L + U)
    f = torch.cat([predict(query.net, query.labelled_images).double(), query.outputs])  # f_L, (L + U, O)
    state = known(query, theta, f if prior == "network" else torch.zeros_like(f))
    reference = query.outputs if prior == "network" else None
    return top(OBJECTIVES["mlmoc"](state, query.outputs, reference), size, stream)
