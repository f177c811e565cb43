"""Infinite-width kernels against integrals, closed forms, slow references and wide finite nets."""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special
from speeds import some
from torch import Tensor, func

from bench.core.errors import UserError
from bench.kernels import infinite
from bench.nets import convnet, fcn

ACTIVATIONS = {"relu": torch.relu, "erf": torch.erf}
KERNELS = {"fcn": infinite.fcn, "convnet": infinite.convnet}


def points(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def integral(activation: str, q1: float, q2: float, c: float) -> tuple[float, float]:
    """E[phi(u) phi(v)] and E[phi'(u) phi'(v)] for u, v of variances q1, q2 and correlation c, by numerical integration.

    u = sqrt(q1) g, v = sqrt(q2) (c g + s h) with g, h independent standard normals.
    """
    s = math.sqrt(1 - c * c)
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    if activation == "relu":  # over the wedge where both are positive, so that the integrand is smooth

        def wedge(f):
            def density(h, g):
                return f(math.sqrt(q1) * g, math.sqrt(q2) * (c * g + s * h)) * math.exp(-(g * g + h * h) / 2)

            area, _ = integrate.dblquad(density, 0, 12, lambda g: max(-c / s * g, -12), 12, epsabs=1e-11, epsrel=1e-11)
            return area / (2 * math.pi)

        return wedge(lambda u, v: u * v), wedge(lambda u, v: 1.0)
    u = math.sqrt(q1) * nodes[:, None]
    v = math.sqrt(q2) * (c * nodes[:, None] + s * nodes[None])
    plane = weights[:, None] * weights[None] / (2 * math.pi)
    slope = 4 / math.pi * np.exp(-u * u - v * v)
    return float((plane * special.erf(u) * special.erf(v)).sum()), float((plane * slope).sum())


def second_moment(activation: str, q: float) -> float:
    phi = special.erf if activation == "erf" else lambda u: max(u, 0.0)
    density = lambda g: phi(math.sqrt(q) * g) ** 2 * math.exp(-g * g / 2) / math.sqrt(2 * math.pi)  # noqa: E731
    return integrate.quad(density, -12, 12, points=[0], epsabs=1e-12)[0]


@pytest.mark.parametrize("activation", ["relu", "erf"])
@pytest.mark.parametrize("c", [-0.95, -0.3, 0.0, 0.6, 0.99])
def test_moments_are_the_integrals(activation, c):
    q1, q2 = 0.7, 1.9
    tensors = [torch.tensor(v, dtype=torch.float64) for v in (c, math.sqrt(q1 * q2), q1, q2)]
    got = [m.item() for m in infinite.MOMENTS[activation](*tensors)]
    assert got == pytest.approx(integral(activation, q1, q2, c), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("activation", ["relu", "erf"])
@pytest.mark.parametrize("depth", [1, 2])
def test_fcn_is_the_recursion_by_integration(activation, depth):
    w2, b2 = 1.7, 0.3
    x, y = points(2, 4)
    k, a, b, t = (x @ y / 4).item(), (x @ x / 4).item(), (y @ y / 4).item(), 0.0
    for _ in range(depth):
        sigma, q1, q2 = w2 * k + b2, w2 * a + b2, w2 * b + b2
        k, slope = integral(activation, q1, q2, sigma / math.sqrt(q1 * q2))
        t = (sigma + w2 * t) * slope
        a, b = second_moment(activation, q1), second_moment(activation, q2)
    got = infinite.fcn(x[None], y[None], depth=depth, activation=activation, weight_variance=w2, bias_variance=b2)
    assert got.nngp.item() == pytest.approx(w2 * k + b2, rel=1e-9)
    assert got.ntk.item() == pytest.approx(w2 * k + b2 + w2 * t, rel=1e-9)


def test_first_layer_ntk_is_the_lectures():
    """k(x, x') = x.x' (1/2 - arccos(x.x') / (2 pi)), unit vectors: the NTK of depth 1 without the read-out's part."""
    angles = torch.arange(0, 181, 30, dtype=torch.float64) * math.pi / 180
    circle = torch.stack([angles.cos(), angles.sin()], 1)  # (7, 2)
    got = infinite.fcn(circle[:1], circle, depth=1, weight_variance=1.0)
    cosine = angles.cos()[None]
    lecture = cosine * (0.5 - angles[None] / (2 * math.pi))
    torch.testing.assert_close(2 * (got.ntk - got.nngp), lecture, rtol=0, atol=1e-15)  # x.x'/d, d = 2


def test_he_recursion_in_its_usual_form():
    """kappa_0, kappa_1 of unit-variance ReLU with W2 = 2; a first layer of variance 1 halves a homogeneous kernel."""
    x, y = points(4, 6), points(3, 6, seed=1)
    sigma = theta = x @ y.T / 6
    scale = (x.norm(dim=1)[:, None] * y.norm(dim=1)) / 6
    for _ in range(3):
        c = sigma / scale
        sigma = scale * (c * (math.pi - c.arccos()) + (1 - c * c).sqrt()) / math.pi
        theta = sigma + theta * (math.pi - c.arccos()) / math.pi
    got = infinite.fcn(x, y, depth=3, weight_variance=2.0)
    torch.testing.assert_close(got.nngp, 2 * sigma)
    torch.testing.assert_close(got.ntk, 2 * theta)


def ntk_net(kind: str, activation: str, depth: int, n: int, w2: float, b2: float, channels: int, positions: int):
    """A net of one output in the NTK parameterisation: its parameters' shapes, and f(parameters, x) -> features, f."""
    sizes = [channels] + [n] * depth
    patch = (3, 3) if kind == "convnet" else ()
    shapes = [(m, k, *patch) for k, m in pairwise(sizes)] + [(1, n * positions)]

    def net(parameters: list[tuple[Tensor, Tensor]], x: Tensor) -> tuple[Tensor, Tensor]:
        for weight, bias in parameters[:-1]:
            scaled = math.sqrt(w2 / weight[0].numel()) * weight
            layer = torch.nn.functional.conv2d if kind == "convnet" else torch.nn.functional.linear
            more = {"padding": 1} if kind == "convnet" else {}
            x = ACTIVATIONS[activation](layer(x, scaled, math.sqrt(b2) * bias, **more))
        x = x.flatten(1)
        weight, bias = parameters[-1]
        return x, x @ weight[0] * math.sqrt(w2 / weight.numel()) + math.sqrt(b2) * bias

    return shapes, net


def gram(jacobian: dict | list | tuple) -> Tensor:
    leaves = torch.utils._pytree.tree_leaves(jacobian)
    return sum(j.flatten(1) @ j.flatten(1).T for j in leaves)


WIDE = [("fcn", (4, 5), 1024, 20, "relu"), ("convnet", (3, 2, 3, 3), 128, 40, "erf")]


@some(
    "kind, shape, n, draws, activation",
    [(*wide[:4], activation) for wide in WIDE for activation in ("relu", "erf")],
    always=WIDE[1:],
)
def test_wide_nets_in_ntk_parameterisation_agree(kind, shape, n, draws, activation):
    depth, w2, b2 = 2, 1.6, 0.2
    x = points(*shape, seed=3)
    positions = math.prod(shape[2:])
    shapes, net = ntk_net(kind, activation, depth, n, w2, b2, shape[1], positions)
    generator = torch.Generator().manual_seed(5)
    nngp, ntk = [], []
    for _ in range(draws):
        parameters = [
            (torch.randn(s, generator=generator).double(), torch.randn(s[0], generator=generator).double())
            for s in shapes
        ]
        features, _ = net(parameters, x)
        nngp.append(w2 * features @ features.T / features.shape[1] + b2)
        ntk.append(gram(func.jacrev(lambda p: net(p, x)[1])(parameters)))
    exact = KERNELS[kind](x, depth=depth, activation=activation, weight_variance=w2, bias_variance=b2)
    for draws_of, limit in ((nngp, exact.nngp), (ntk, exact.ntk)):
        sample = torch.stack(draws_of)
        error = sample.std(0) / math.sqrt(draws)
        allowed = 4.5 * error + 2 / n * limit.diagonal().max()  # the mean itself is off by O(1/n)
        assert ((sample.mean(0) - limit).abs() < allowed).all()
        assert (error < 0.05 * limit.diagonal().max()).all()  # or the line above would accept anything


@pytest.mark.parametrize("init", ["he", "lecun"])
@pytest.mark.parametrize(
    ("kind", "shape", "n", "draws"), [("fcn", (4, 1, 3, 2), 512, 16), ("convnet", (3, 2, 3, 3), 64, 24)]
)
def test_width_gives_the_entk_of_the_suites_nets(kind, shape, n, draws, init):
    """Standard parameterisation, zero biases that are trained; one image has a black part, where ReLU's slope is 0."""
    depth, w2 = 2, {"he": 2.0, "lecun": 1.0}[init]
    x = points(*shape, seed=4)
    x[0, :, 1:] = 0
    kernels = []
    for seed in range(draws):
        torch.manual_seed(seed)
        if kind == "fcn":
            net = fcn.build(shape[1:], 1, n, depth, "relu", init, widen="all").double()
        else:
            net = convnet.build(shape[1:], 1, n // 16, depth, "flatten", "relu", init).double()
        parameters = dict(net.named_parameters())
        kernels.append(gram(func.jacrev(lambda p, net=net: func.functional_call(net, p, x)[:, 0])(parameters)))
    exact = KERNELS[kind](x, depth=depth, weight_variance=w2, width=n).ntk
    sample = torch.stack(kernels)
    error = sample.std(0) / math.sqrt(draws)
    assert ((sample.mean(0) - exact).abs() < 4.5 * error + 2 / n * exact.diagonal().max()).all()
    assert (error < 0.05 * exact.diagonal().max()).all()


@pytest.mark.parametrize("kind", ["fcn", "convnet"])
def test_parameterisations_are_related_as_stated(kind):
    """NTK = A1 + A2 + A3 by layers; standard(n) = sum of fan-in A / W2, plus the biases. The NNGP is the same."""
    x, w2 = points(3, 2, 3, 3), 1.5
    first, hidden, last = (18, 1, 1) if kind == "fcn" else (18, 9, 9)  # fan-ins; the last two times n
    at = {n: KERNELS[kind](x, depth=2, weight_variance=w2, width=n) for n in (1, 2, 10)}
    limit = KERNELS[kind](x, depth=2, weight_variance=w2)
    assert torch.equal(at[10].nngp, limit.nngp)
    slope = at[2].ntk - at[1].ntk
    torch.testing.assert_close(at[10].ntk, at[1].ntk + 9 * slope)
    a3 = limit.nngp  # without biases
    a2 = (w2 * slope - last * a3) / hidden
    a1 = limit.ntk - a2 - a3
    biases = (at[1].ntk - slope - first / w2 * a1).diagonal()
    inside = 1 if kind == "fcn" else 49 / 81  # mean part of a 3x3 patch inside a 3x3 image
    half = w2 / 2  # what a ReLU passes on
    torch.testing.assert_close(biases, torch.full_like(biases, 1 + half + half**2 * inside))


@pytest.mark.parametrize("kind", ["fcn", "convnet"])
def test_a_black_image_trains_only_the_last_bias(kind):
    """ReLU's slope at 0 is 0 in PyTorch, and with zero biases every unit of a black image is there."""
    x = torch.cat([torch.zeros(1, 2, 3, 3), points(1, 2, 3, 3)]).double()
    build = (
        partial(fcn.build, width=7, widen="all")
        if kind == "fcn"
        else partial(convnet.build, width=1, readout="flatten")
    )
    net = build((2, 3, 3), 1, depth=2, activation="relu", init="he").double()
    finite = gram(func.jacrev(lambda p: func.functional_call(net, p, x)[:, 0])(dict(net.named_parameters())))
    infinitely = KERNELS[kind](x, depth=2, width=16).ntk
    assert torch.equal(finite[0], torch.ones(2).double())
    assert torch.equal(infinitely[0], torch.ones(2).double())


def slow_convnet(x: Tensor, depth: int, w2: float, b2: float) -> tuple[Tensor, Tensor]:
    """ReLU ConvNet with all pairs of positions, one number at a time: Sigma[i, j, p, p'], then flatten."""
    _, channels, height, breadth = x.shape
    grid = [(r, s) for r in range(height) for s in range(breadth)]
    index = {p: i for i, p in enumerate(grid)}
    k = torch.einsum("icp,jcq->ijpq", x.flatten(2), x.flatten(2)) / channels
    t = torch.zeros_like(k)
    shifts = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]

    def box(m: Tensor) -> Tensor:
        out = torch.zeros_like(m)
        for p in grid:
            for q in grid:
                for a, b in shifts:
                    moved = (p[0] + a, p[1] + b), (q[0] + a, q[1] + b)
                    if moved[0] in index and moved[1] in index:
                        out[:, :, index[p], index[q]] += m[:, :, index[moved[0]], index[moved[1]]] / 9
        return out

    for _ in range(depth):
        sigma = w2 * box(k) + b2
        theta = sigma + w2 * box(t)
        q = torch.einsum("iipp->ip", sigma)  # (N, T)
        scale = (q[:, None, :, None] * q[None, :, None, :]).sqrt()
        angle = (sigma / scale).clamp(-1, 1).arccos()
        k = scale * (angle.sin() + (math.pi - angle) * angle.cos()) / (2 * math.pi)
        t = theta * (math.pi - angle) / (2 * math.pi)
    k, t = (torch.einsum("ijpp->ij", m) / len(grid) for m in (k, t))
    return w2 * k + b2, w2 * k + b2 + w2 * t


def test_convnet_is_the_diagonal_of_the_kernel_of_all_pixel_pairs():
    x = points(3, 2, 3, 4)
    nngp, ntk = slow_convnet(x, 3, 1.8, 0.1)
    got = infinite.convnet(x, depth=3, weight_variance=1.8, bias_variance=0.1)
    torch.testing.assert_close(got.nngp, nngp, rtol=1e-7, atol=0)
    torch.testing.assert_close(got.ntk, ntk, rtol=1e-6, atol=0)  # arccos of 1 - eps, on the slow side


def test_convnet_on_one_pixel_is_the_fcn_up_to_the_padding():
    """Of the 3x3 patch only the centre is inside, so every hidden layer's weight variance is divided by nine."""
    x = points(4, 3, 1, 1)
    conv = infinite.convnet(x, depth=2, weight_variance=9.0, bias_variance=0.4)
    dense = infinite.fcn(x, depth=2, weight_variance=1.0, bias_variance=0.4)
    torch.testing.assert_close((conv.nngp - 0.4) / 9, dense.nngp - 0.4)  # the read-out sees W2 = 9


@pytest.mark.parametrize("kind", ["fcn", "convnet"])
@pytest.mark.parametrize("activation", ["relu", "erf"])
@pytest.mark.parametrize("width", [None, 64])
def test_symmetric_positive_definite_and_independent_of_batching(kind, activation, width):
    x = points(13, 2, 4, 3)
    kernel = partial(KERNELS[kind], depth=3, activation=activation, bias_variance=0.1, width=width)
    whole = kernel(x)
    both = kernel(x, x.clone())
    parts = kernel(x, budget=1)  # tiles of one pair
    for one, two, three in zip(whole, both, parts, strict=True):
        assert torch.equal(one, one.T)
        assert torch.linalg.eigvalsh(one)[0] > 0
        torch.testing.assert_close(two, one, rtol=1e-13, atol=0)
        torch.testing.assert_close(three, one, rtol=1e-13, atol=0)
    for one, two in zip(kernel(x[:4], x[4:]), whole, strict=True):
        torch.testing.assert_close(one, two[:4, 4:], rtol=1e-13, atol=0)


@pytest.mark.parametrize("kind", ["fcn", "convnet"])
@pytest.mark.parametrize("activation", ["relu", "erf"])
@pytest.mark.parametrize("shape", [(5, 3, 32, 32), (5, 1, 2, 1)])
def test_duplicates_give_the_diagonal(kind, activation, shape):
    """Also in another batch, beside a zero image: the fully-connected ReLU net's exactly, others up to roundings, of
    the ConvNet's sum over positions in another order, or of an arctangent that is vectorised or not, by its place.
    """
    exactly = (kind, activation) == ("fcn", "relu")
    x = points(*shape).float() * 3
    x[4] = 0
    whole = KERNELS[kind](x, depth=3, activation=activation)
    apart = KERNELS[kind](x, x[[2, 2, 4]], depth=3, activation=activation, budget=2**18)
    for one, two in zip(whole, apart, strict=True):
        assert torch.isfinite(two).all()
        torch.testing.assert_close(two[2, :2], one[2, 2].expand(2), rtol=0 if exactly else 4e-15, atol=0)
        assert torch.equal(two[4], torch.zeros_like(two[4]))


def test_diagonal_of_he_relu_is_known():
    """Every layer preserves the variance: nngp(x, x) = 2 |x|^2 / d, and each of depth + 1 layers adds it once."""
    x = points(6, 3072) * 100
    got = infinite.fcn(x, depth=5)
    torch.testing.assert_close(got.nngp.diagonal(), 2 * (x * x).mean(1), rtol=1e-14, atol=0)
    torch.testing.assert_close(got.ntk.diagonal(), 12 * (x * x).mean(1), rtol=1e-14, atol=0)


def test_opposite_points():
    """c = -1: the first-layer kernel is 0, no NaN; erf, an odd function, gives minus the diagonal."""
    x = points(1, 50)
    relu, erf = (infinite.fcn(x, -x, depth=1, activation=a) for a in ("relu", "erf"))
    assert relu.nngp.item() == relu.ntk.item() == 0
    assert erf.nngp.item() == -infinite.fcn(x, depth=1, activation="erf").nngp.item()


def test_large_variance_erf_is_a_sign_network():
    """As q grows erf becomes the sign, E[sign u sign v] = 1 - 2 angle / pi; no overflow and no loss of digits."""
    x = points(2, 3) * 1e6
    angle = torch.nn.functional.cosine_similarity(x[0], x[1], 0).arccos()
    got = infinite.fcn(x, depth=1, activation="erf", weight_variance=1.0).nngp
    torch.testing.assert_close(got[0, 1], 1 - 2 * angle / math.pi, rtol=1e-8, atol=0)
    q = (x * x).mean(1)
    short = 2 / math.pi * (2 / (1 + 2 * q)).sqrt()  # 1 - (2/pi) arcsin(1 - e) = (2/pi) sqrt(2 e), e = 1 / (1 + 2 q)
    torch.testing.assert_close(1 - got.diagonal(), short, rtol=1e-6, atol=0)


@given(
    seed=st.integers(0, 99),
    scale=st.floats(0.01, 100),
    depth=st.integers(1, 4),
    kind=st.sampled_from(["fcn", "convnet"]),
)
def test_relu_without_bias_is_homogeneous(seed, scale, depth, kind):
    x, y = points(3, 2, 3, 2, seed=seed), points(2, 2, 3, 2, seed=seed + 100)
    for one, two in zip(KERNELS[kind](x, scale * y, depth=depth), KERNELS[kind](x, y, depth=depth), strict=True):
        torch.testing.assert_close(one, scale * two, rtol=1e-9, atol=1e-12 * scale)


@given(
    seed=st.integers(0, 99),
    depth=st.integers(1, 5),
    activation=st.sampled_from(["relu", "erf"]),
    kind=st.sampled_from(["fcn", "convnet"]),
    b2=st.sampled_from([0.0, 0.5]),
)
def test_kernel_inequalities(seed, depth, activation, kind, b2):
    """Cauchy-Schwarz for both kernels; NTK - NNGP is itself a kernel, of the layers below the read-out."""
    x = points(5, 2, 3, 2, seed=seed)
    x[4] = x[3] + 1e-9  # nearly a duplicate
    got = KERNELS[kind](x, depth=depth, activation=activation, bias_variance=b2)
    for k in (got.nngp, got.ntk, got.ntk - got.nngp):
        diagonal = k.diagonal()
        assert torch.isfinite(k).all()
        assert (diagonal > 0).all()
        assert (k.abs() <= (diagonal[:, None] * diagonal).sqrt() * (1 + 1e-12)).all()
        assert torch.linalg.eigvalsh(k)[0] > -1e-7 * diagonal.max()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"activation": "gelu"}, "closed-form"),
        ({"depth": 0}, "at least 1"),
        ({"width": 0}, "at least 1"),
        ({"weight_variance": 0.0}, "must be positive"),
        ({"bias_variance": -1.0}, "not negative"),
        ({"x2": points(2, 1, 3, 3)}, "differ in shape"),
        ({"x2": torch.full((2, 2, 3, 3), math.nan)}, "NaN"),
    ],
)
@pytest.mark.parametrize("kind", ["fcn", "convnet"])
def test_what_cannot_be_computed_is_refused(kind, arguments, says):
    with pytest.raises(UserError, match=says):
        KERNELS[kind](points(3, 2, 3, 3), **arguments)


def test_convnet_needs_images():
    with pytest.raises(UserError, match=r"N, C, H, W"):
        infinite.convnet(points(3, 18))
