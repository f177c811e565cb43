"""Infinite-width kernels of the fully-connected net and of the plain convolutional net: NNGP and NTK, in float64.

In the NTK parameterisation, W and b standard normal, every layer of fan-in n computes

    h = sqrt(W2 / n) W z + sqrt(B2) b,    z = phi(h),        W2, B2 the weight and bias variance,

and as the widths grow its outputs become independent Gaussian processes of covariance Sigma (the NNGP), its empirical
tangent kernel becomes Theta kron I_O (the NTK). With k = E[z z'] and t the tangent kernel of z (at the input,
k = x.x'/d and t = 0), each layer is

    Sigma = W2 k + B2,                    Theta = Sigma + W2 t                                      (Jacot et al. 2018)
    k <- E[phi(u) phi(v)],                t <- Theta E[phi'(u) phi'(v)],    (u, v) ~ N(0, [[q1, Sigma], [Sigma, q2]])

with both expectations in closed form (`MOMENTS`) and q1, q2 the variances Sigma(x, x), Sigma(x', x').

The suite's nets are in the standard parameterisation: the trained weight is w = sqrt(W2 / n) W, the trained bias has
variance B2 (0 under `he` and `lecun`, where W2 is 2 and 1). The function is the same, so the NNGP is. But
df/dw = sqrt(n / W2) df/dW and a bias counts in full, so a layer's own part of Theta, W2 k + B2 above, becomes n k + 1.
`width=n` gives this kernel: what the eNTK of the suite's net of that width is near, to a relative O(n^-1/2). It grows
like n; the first layer, whose fan-in does not grow, and the biases stay O(1). So eNTK / n tends not to the NTK above,
but to the part of it that comes from the weights after the first layer, divided by W2.

Points closer in angle than rounding can tell (1 - cos < 4 eps sqrt(d): an angle near 1e-7) count as parallel. A
duplicate then gives the diagonal's value to the last digits, where arccos near 1 would turn an error of eps into
sqrt(eps). Beyond rounding (a product in another order), results do not depend on tiles or on what else is in a batch.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from bench.core.errors import UserError

LIVE = 12  # arrays of a tile's size alive at once in `_pairs`, at most
BUDGET = 2**23  # bytes for them; small tiles stay in cache, and larger ones were slower


class Kernels(NamedTuple):
    nngp: Tensor  # (N1, N2)
    ntk: Tensor  # (N1, N2)


def _relu(c: Tensor, scale: Tensor, q1: Tensor, q2: Tensor) -> tuple[Tensor, Tensor]:
    """Arc-cosine kernels of degree 1 and 0 (Cho and Saul 2009)."""
    beyond = math.pi - torch.arccos(c)
    values = (c * beyond + ((1 - c) * (1 + c)).sqrt_()) * scale / (2 * math.pi)
    slopes = beyond / (2 * math.pi)  # lecture: 1/2 - arccos(c) / (2 pi)
    return values, slopes.masked_fill_(scale == 0, 0)  # the slope at 0 is 0, as in PyTorch


def _erf(c: Tensor, scale: Tensor, q1: Tensor, q2: Tensor) -> tuple[Tensor, Tensor]:
    """(2/pi) arcsin(2 Sigma / sqrt((1 + 2 q1)(1 + 2 q2))) (Williams 1997) and (4/pi) / sqrt(D), where
    D = (1 + 2 q1)(1 + 2 q2) - 4 Sigma^2, written without cancellation; arcsin as an arctangent, exact for large q."""
    root = (1 + 2 * (q1 + q2) + 4 * scale**2 * ((1 - c) * (1 + c))).sqrt_()  # sqrt(D)
    return 2 / math.pi * torch.atan2(2 * c * scale, root), 4 / math.pi / root


# cosine c = Sigma / scale, scale = sqrt(q1 q2), q1, q2 -> E[phi(u) phi(v)], E[phi'(u) phi'(v)]
MOMENTS = {"relu": _relu, "erf": _erf}


@dataclass(frozen=True)
class _Net:
    """A net as the recursion sees it. Points are the last axis of x; S is () for the FCN and (H, W) for the ConvNet."""

    contract: Callable[[Tensor, Tensor], Tensor]  # x1, x2 -> mean of x x' over channels, (*S, N1, N2)
    variance: Callable[[Tensor], Tensor]  # x -> mean of x^2 over channels, (*S, N)
    mix: Callable[[Tensor], Tensor]  # mean over the positions a hidden unit sees, (*S, ...) -> (*S, ...)
    readout: Callable[[Tensor], Tensor]  # mean over the positions an output sees, (*S, ...) -> (...)
    positions: int  # product of S
    fan_in: list[int]  # of the depth + 1 affine layers
    activation: str
    weight_variance: float
    bias_variance: float
    standard: bool  # parameterisation

    def affine(self, layer: int, k: Tensor, t: Tensor, mean: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Sigma and Theta of an affine layer."""
        k, t = mean(k), mean(t)
        sigma = self.weight_variance * k + self.bias_variance
        own = self.fan_in[layer] * k + 1 if self.standard else sigma
        return sigma, own + self.weight_variance * t

    def variances(self, x: Tensor) -> list[Tensor]:
        """Sigma(x, x) before every activation, by the same operations as `_pairs`; depth times (*S, N)."""
        k, layers = self.variance(x), []
        for _ in self.fan_in[:-1]:
            q = self.weight_variance * self.mix(k) + self.bias_variance
            k, _ = MOMENTS[self.activation](torch.ones_like(q), (q * q).sqrt(), q, q)
            layers.append(q)
        return layers


def _box(x: Tensor) -> Tensor:
    """Mean over the 3x3 neighbourhood of each position, zeros outside; (H, W, ...)."""
    rows = x.clone()
    rows[1:] += x[:-1]
    rows[:-1] += x[1:]
    both = rows.clone()
    both[:, 1:] += rows[:, :-1]
    both[:, :-1] += rows[:, 1:]
    return both.div_(9)


def _pairs(net: _Net, x1: Tensor, x2: Tensor, variances1: list[Tensor], variances2: list[Tensor]) -> Kernels:
    """The recursion for all pairs of two batches, (n1, n2)."""
    nearly = 1 - 4 * torch.finfo(x1.dtype).eps * math.sqrt(net.fan_in[0])  # a sum of d terms errs by about sqrt(d) eps
    k = net.contract(x1, x2)  # (*S, n1, n2)
    t = torch.zeros_like(k)
    for layer, (q1, q2) in enumerate(zip(variances1, variances2, strict=True)):
        sigma, theta = net.affine(layer, k, t, net.mix)
        q1, q2 = q1[..., :, None], q2[..., None, :]  # (*S, n1, 1), (*S, 1, n2)
        scale = (q1 * q2).sqrt_()  # (*S, n1, n2)
        c = sigma / scale.clamp(min=torch.finfo(scale.dtype).tiny)  # 0 where a variance is 0
        c = torch.where(c.abs() > nearly, c.sign(), c)
        k, slopes = MOMENTS[net.activation](c, scale, q1, q2)
        t = theta * slopes
    return Kernels(*net.affine(len(variances1), k, t, net.readout))


def _kernels(net: _Net, x1: Tensor, x2: Tensor | None, budget: int) -> Kernels:
    """Tile by tile within the budget; without x2, the upper triangle, mirrored."""
    symmetric = x2 is None
    x2 = x1 if symmetric else x2
    q1 = net.variances(x1)
    q2 = q1 if symmetric else net.variances(x2)
    n1, n2 = x1.shape[-1], x2.shape[-1]
    side = max(1, math.isqrt(budget // (LIVE * x1.element_size() * net.positions)))
    nngp, ntk = x1.new_zeros(2, n1, n2)
    for i in range(0, n1, side):
        for j in range(i if symmetric else 0, n2, side):
            rows, cols = slice(i, i + side), slice(j, j + side)
            tile = _pairs(net, x1[..., rows], x2[..., cols], [q[..., rows] for q in q1], [q[..., cols] for q in q2])
            nngp[rows, cols], ntk[rows, cols] = tile
    if symmetric:
        for k in (nngp, ntk):
            k.triu_().add_(k.triu(1).mT)
    return Kernels(nngp, ntk)


def _points_last(x1: Tensor, x2: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """(N, ...) -> (..., N) in float64, so that all pairs of one position lie together in memory."""
    if x2 is not None and x1.shape[1:] != x2.shape[1:]:
        raise UserError(f"the two sets of points differ in shape: {tuple(x1.shape[1:])} and {tuple(x2.shape[1:])}")
    if not all(torch.isfinite(x).all() for x in (x1, x2) if x is not None):
        raise UserError("the points contain NaN or infinity: no kernel of them exists; mend the data first")
    x1, x2 = (None if x is None else x.double().movedim(0, -1).contiguous() for x in (x1, x2))
    return x1, x2


def _check(depth: int, activation: str, weight_variance: float, bias_variance: float, width: int | None) -> None:
    if activation not in MOMENTS:
        raise UserError(f"activation {activation!r} has no closed-form kernel here; choose one of {sorted(MOMENTS)}")
    if depth < 1 or (width is not None and width < 1):
        raise UserError(f"depth {depth} and width {width} must be at least 1 (width None: NTK parameterisation)")
    if not (weight_variance > 0 and bias_variance >= 0):
        raise UserError(
            f"weight variance {weight_variance} must be positive, bias variance {bias_variance} not negative"
        )


def fcn(
    x1: Tensor,
    x2: Tensor | None = None,
    *,
    depth: int = 3,
    activation: str = "relu",
    weight_variance: float = 2.0,
    bias_variance: float = 0.0,
    width: int | None = None,
    budget: int = BUDGET,
) -> Kernels:
    """Kernels of the fully-connected net with `depth` hidden layers between x1 (N1, ...) and x2 (N2, ...), flattened.

    Without x2, of x1 with itself. `width` None is the NTK parameterisation; n, the suite's FCN of that width (above).
    Cost: a product N1 x d x N2, and per layer one arccos and some 20 cheaper passes over N1 x N2.
    """
    _check(depth, activation, weight_variance, bias_variance, width)
    x1, x2 = _points_last(x1.flatten(1), None if x2 is None else x2.flatten(1))
    d, n = len(x1), width or 1  # n is not used in the NTK parameterisation
    net = _Net(
        contract=lambda a, b: a.mT @ b / d,
        variance=lambda x: (x * x).sum(0) / d,
        mix=lambda k: k,
        readout=lambda k: k,
        positions=1,
        fan_in=[d, *[n] * depth],
        activation=activation,
        weight_variance=weight_variance,
        bias_variance=bias_variance,
        standard=width is not None,
    )
    return _kernels(net, x1, x2, budget)


def convnet(
    x1: Tensor,
    x2: Tensor | None = None,
    *,
    depth: int = 8,
    activation: str = "relu",
    weight_variance: float = 2.0,
    bias_variance: float = 0.0,
    width: int | None = None,
    budget: int = BUDGET,
) -> Kernels:
    """Kernels of `depth` 3x3 convolutions, stride 1, zero padding, and a flatten read-out, on images (N, C, H, W).

    Read-out weights at different positions are independent, so only covariances of the two images at one and the same
    position reach the output, and those of a layer are means over 3x3 of those below: T = H W numbers per pair. Global
    average pooling sums over all pairs of positions (p, p') and so needs T^2 numbers per pair of images in every layer
    (38,416 for 14x14, where flatten needs 196): it is left out.

    `width` None is the NTK parameterisation; n, the suite's ConvNet of n channels (16 times its widening factor) with
    `readout=flatten`. Cost: per layer, one arccos and some 30 cheaper passes over N1 x N2 x T, half of it without x2,
    in tiles of `budget` bytes: 27 CPU seconds for 1,000 images of 14x14 at depth 8.
    """
    _check(depth, activation, weight_variance, bias_variance, width)
    if x1.dim() != 4:
        raise UserError(f"a convolutional kernel needs images (N, C, H, W), got shape {tuple(x1.shape)}")
    x1, x2 = _points_last(x1, x2)
    channels, height, breadth, _ = x1.shape  # x: (C, H, W, N)
    positions, n = height * breadth, width or 1
    net = _Net(
        contract=lambda a, b: sum(u[..., :, None] * v[..., None, :] for u, v in zip(a, b, strict=True)) / channels,
        variance=lambda x: sum(u * u for u in x) / channels,
        mix=_box,
        readout=lambda k: k.mean((0, 1)),
        positions=positions,
        fan_in=[9 * channels, *[9 * n] * (depth - 1), positions * n],
        activation=activation,
        weight_variance=weight_variance,
        bias_variance=bias_variance,
        standard=width is not None,
    )
    return _kernels(net, x1, x2, budget)
