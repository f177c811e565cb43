"""Look-ahead against explicit inverses, loops over candidates and a network's own linearisation; and on kernels that
have no answer."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import functional_call, jacrev

from bench import nets
from bench.core.errors import UserError
from bench.core.seeds import torch_stream
from bench.kernels import lookahead
from bench.kernels.empirical import gram
from bench.kernels.lookahead import (
    add,
    block,
    distance,
    eer,
    emoc,
    flips,
    look_ahead,
    mlmoc,
    mlmoc_flips,
    one_by_one,
    posterior,
    resolve,
)
from bench.kernels.regression import regress
from bench.learn.probability import simplex, softmax

L, U, O = 6, 9, 3  # noqa: E741


class Problem(NamedTuple):
    k_ll: Tensor
    k_ul: Tensor
    k_uu: Tensor
    residual: Tensor  # (L, O)
    prior: Tensor  # (U, O)

    def known(self) -> lookahead.Posterior:
        return posterior(self.k_ll, self.k_ul, self.k_uu.clone(), self.residual, self.prior)

    def labels(self) -> Tensor:
        """One-hot argmax of the network's outputs, (U, O)."""
        return torch.eye(self.prior.shape[1]).double()[self.prior.argmax(1)]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch_stream(seed, "data", *shape), dtype=torch.float64)


def problem(full: bool = False, labelled: int = L, candidates: int = U, outputs: int = O, seed: int = 0) -> Problem:
    size = (outputs if full else 1) * (labelled + candidates)
    factor = draw(size, 2 * size, seed=seed)
    kernel, n = factor @ factor.T / size, size * labelled // (labelled + candidates)
    residual, prior = draw(labelled, outputs, seed=seed + 1), draw(candidates, outputs, seed=seed + 2)
    return Problem(kernel[:n, :n], kernel[n:, :n], kernel[n:, n:], residual, prior)


def learnt(case: Problem, which: list[int]) -> tuple[Tensor, Tensor]:
    """K_LL and K_UL with the candidates `which` among the labelled points, at the end."""
    size = len(case.k_ll) // len(case.residual)
    rows = [i * size + o for i in which for o in range(size)]
    old, new = torch.cat([case.k_ll, case.k_ul[rows]]), torch.cat([case.k_ul[rows].T, case.k_uu[rows][:, rows]])
    return torch.cat([old, new], 1), torch.cat([case.k_ul, case.k_uu[:, rows]], 1)


def brute(case: Problem, i: int, y: Tensor) -> Tensor:
    """f_{L + (x_i, y)}(U): the kernel of the L + 1 points, its inverse, and (2.11)."""
    train, cross = (kernel.numpy() for kernel in learnt(case, [i]))
    train += 1e-10 * np.diag(case.k_ll).mean() * np.eye(len(train))
    residual = torch.cat([case.residual, (y - case.prior[i])[None]]).numpy().reshape(len(train), -1)
    return case.prior + torch.tensor(cross @ np.linalg.inv(train) @ residual).reshape(case.prior.shape)


def close(a: Tensor, b: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


problems = st.builds(
    problem,
    full=st.booleans(),
    labelled=st.integers(1, 5),
    candidates=st.integers(1, 6),
    outputs=st.integers(1, 4),
    seed=st.integers(0, 10**6),
)


@given(problems, st.data())
def test_posterior_form_is_the_direct_solve_and_the_block_formula(case, data):
    i = data.draw(st.integers(0, len(case.prior) - 1))
    y = draw(case.prior.shape[1], seed=i)
    expected = brute(case, i, y)
    close(look_ahead(case.known(), i, y), expected)
    close(resolve(*case)(i, y), expected)
    if len(case.k_ll) == len(case.residual):
        close(block(*case)(i, y), expected)


def test_the_block_formula_as_printed_is_wrong():
    """(2.12) says v = K_LL K_Lx', without the inverse."""
    case = problem()
    y = case.labels()[4]
    assert (block(*case, printed=True)(4, y) - brute(case, 4, y)).abs().max() > 0.1


def test_the_block_formula_is_for_scalar_kernels():
    with pytest.raises(UserError, match="scalar"):
        block(*problem(full=True))


@pytest.mark.parametrize("full", [False, True])
def test_adding_one_by_one_is_starting_again(full):
    case, order = problem(full, candidates=12), [3, 7, 0, 11]
    known, labels = case.known(), draw(4, O, seed=9)
    for i, y in zip(order, labels, strict=True):
        known = add(known, i, y)
    k_ll, k_ul = learnt(case, order)
    residual = torch.cat([case.residual, labels - case.prior[order]])
    again = Problem(k_ll, k_ul, case.k_uu, residual, case.prior).known()
    close(known.mean, again.mean)
    close(known.covariance, again.covariance)
    close(known.mean[order], labels, 1e-8)  # what has been learnt is known
    free = [i for i in range(12) if i not in order]
    close(mlmoc(known, case.labels())[free], mlmoc(again, case.labels())[free], 1e-9)
    assert (mlmoc(known, case.labels())[order] == 0).all()


def test_scalar_kernel_is_the_full_kernel_k_kron_identity():
    scalar, eye = problem(), torch.eye(O).double()
    known = Problem(*(torch.kron(k, eye) for k in scalar[:3]), scalar.residual, scalar.prior).known()
    p = softmax(scalar.prior)
    for reference in (None, scalar.prior):
        close(mlmoc(known, scalar.labels(), reference), mlmoc(scalar.known(), scalar.labels(), reference))
        close(emoc(known, p, reference), emoc(scalar.known(), p, reference))
    close(eer(known, p), eer(scalar.known(), p))


@pytest.mark.parametrize(("spec", "width"), [("fcn+depth=2", 24), ("convnet+depth=2", 1)])
@pytest.mark.parametrize("output", ["full", "pseudo", "first"])
def test_kernels_of_a_real_net(spec, width, output):
    net = nets.build(spec, (1, 4, 4), O, width, torch_stream(0, "init")).double().eval()
    x = draw(L + 4, 1, 4, 4, seed=3)
    kernel, outputs = gram(net, x, output=output), net(x).detach()
    n = len(kernel) // (L + 4) * L
    labels = torch.eye(O).double()[torch.arange(L + 4) % O]
    case = Problem(kernel[:n, :n], kernel[n:, :n], kernel[n:, n:], (labels - outputs)[:L], outputs[L:])
    known = case.known()
    assert known.full == (output == "full")
    close(known.mean, regress(kernel[:n, :n], kernel[n:, :n], labels[:L], (outputs[:L], outputs[L:])).prediction, 1e-8)
    for i in range(4):
        close(look_ahead(known, i, labels[i]), resolve(*case)(i, labels[i]), 1e-8)


def test_is_the_linearised_network_itself():
    """f + J dtheta, dtheta the smallest change of the weights that fits the labels; the full eNTK does just that."""
    net = nets.build("fcn+depth=2", (1, 3, 3), O, 24, torch_stream(0, "init")).double().eval()
    x = draw(L + 4, 1, 3, 3, seed=3)
    weights = {name: value.detach() for name, value in net.named_parameters()}
    jacobians = jacrev(lambda weights: functional_call(net, weights, (x,)))(weights)  # {name: (N, O, *shape)}
    jacobian = torch.cat([each.flatten(2) for each in jacobians.values()], 2)  # (N, O, P)
    outputs, labels = net(x).detach(), torch.eye(O).double()[torch.arange(L + 4) % O]

    def trained(points: list[int]) -> Tensor:
        change = torch.linalg.pinv(jacobian[points].flatten(0, 1)) @ (labels - outputs)[points].flatten()  # (P,)
        return (outputs + jacobian @ change)[L:]

    kernel, n = gram(net, x), L * O
    case = Problem(kernel[:n, :n], kernel[n:, :n], kernel[n:, n:], (labels - outputs)[:L], outputs[L:])
    known = case.known()
    close(known.mean, trained([*range(L)]), 1e-6)  # as near as the jitter lets it
    for i in range(4):
        close(look_ahead(known, i, labels[L + i]), trained([*range(L), L + i]), 1e-6)


def test_warm_is_cold_and_a_ridge_breaks_it():
    """Theorem 2.2.1: trained on the old labels first and then on all, or on all at once, the outcome is the same."""
    case = problem()
    y = case.labels()[2]
    known, zero = case.known(), torch.zeros(L, O).double()
    k_ll, k_ul = learnt(case, [2])
    targets = torch.cat([case.residual, y[None]])  # with f_L(L) = 0

    def outcome(ridge: float, warm: bool) -> Tensor:
        at_l, at_u = zero, case.prior
        if warm:
            at_l, at_u = (
                regress(case.k_ll, cross, case.residual, (zero, f), ridge=ridge, jitter="none").prediction
                for cross, f in ((case.k_ll, zero), (case.k_ul, case.prior))
            )
        prior = torch.cat([at_l, at_u[2:3]]), at_u
        return regress(k_ll, k_ul, targets, prior, ridge=ridge, jitter="none").prediction

    close(outcome(0.0, warm=True), outcome(0.0, warm=False))
    close(outcome(0.0, warm=True), look_ahead(known, 2, y), 1e-8)
    assert (outcome(0.1, warm=True) - outcome(0.1, warm=False)).abs().max() > 1e-3


def loop(case: Problem, value) -> Tensor:
    """value(outputs after (x_i, y)) for every candidate i and class y, (U, O)."""
    eye = torch.eye(case.prior.shape[1]).double()
    values = [[value(brute(case, i, y)) for y in eye] for i in range(len(case.prior))]
    return torch.tensor(values, dtype=torch.float64)


def change(outputs: Tensor, reference: Tensor) -> float:
    return sum(math.dist(a, b) for a, b in zip(outputs.tolist(), reference.tolist(), strict=True))


def entropies(p: Tensor) -> float:
    return -sum(q * math.log(q) for row in p.tolist() for q in row if q > 0)


@settings(max_examples=40)
@given(problems)
def test_scores_are_loops_over_candidates_and_classes(case):
    known, y, p = case.known(), case.labels(), softmax(case.prior)
    for reference in (None, case.prior):
        base = known.mean if reference is None else reference
        changes = loop(case, partial(change, reference=base))
        close(mlmoc(known, y, reference), (changes * y).sum(1))
        close(emoc(known, p, reference), (changes * p).sum(1))
        flipped = loop(case, lambda outputs: (outputs.argmax(1) != base.argmax(1)).sum().item())  # noqa: B023
        assert torch.equal(mlmoc_flips(known, y, reference), (flipped * y).sum(1))
        close(one_by_one(resolve(*case), y, partial(distance, reference=base)), mlmoc(known, y, reference))
        assert torch.equal(one_by_one(resolve(*case), y, partial(flips, reference=base)), (flipped * y).sum(1))
    risks = loop(case, lambda outputs: entropies(simplex(outputs)))
    close(eer(known, p), -(risks * p).sum(1))
    missed = loop(case, lambda outputs: sum(1 - max(row) for row in simplex(outputs).tolist()))
    close(eer(known, simplex(case.prior), "max"), -(missed * simplex(case.prior)).sum(1))


def test_an_unknown_risk_is_refused():
    with pytest.raises(UserError, match="'max'"):
        eer(problem().known(), softmax(problem().prior), "variance")


@pytest.mark.parametrize("full", [False, True])
def test_the_readings_of_2_13_agree_only_if_the_network_fits_its_labels(full):
    case = problem(full)
    known, y = case.known(), case.labels()
    assert (mlmoc(known, y) - mlmoc(known, y, case.prior)).abs().max() > 0.1
    fitted = case._replace(residual=0 * case.residual)
    close(mlmoc(fitted.known(), y), mlmoc(fitted.known(), y, case.prior))


SCORES = {
    "mlmoc": lambda case, known: mlmoc(known, case.labels()),
    "mlmoc from f_L": lambda case, known: mlmoc(known, case.labels(), case.prior),
    "flips": lambda case, known: mlmoc_flips(known, case.labels()),
    "emoc": lambda case, known: emoc(known, softmax(case.prior)),
    "emoc from f_L": lambda case, known: emoc(known, softmax(case.prior), case.prior),
    "eer": lambda case, known: eer(known, softmax(case.prior)),
    "eer max": lambda case, known: eer(known, simplex(case.prior), "max"),
}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("full", [False, True])
def test_the_order_of_points_is_of_no_concern(score, full):
    case, size = problem(full), O if full else 1
    labelled, candidates = (torch.randperm(n, generator=torch_stream(n)) for n in (L, U))
    m, n = ((order[:, None] * size + torch.arange(size)).flatten() for order in (candidates, labelled))
    other = Problem(
        case.k_ll[n][:, n], case.k_ul[m][:, n], case.k_uu[m][:, m], case.residual[labelled], case.prior[candidates]
    )
    close(SCORES[score](other, other.known()), SCORES[score](case, case.known())[candidates])


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("full", [False, True])
def test_pieces_are_of_no_concern(score, full, monkeypatch):
    case = problem(full, candidates=23)
    whole = SCORES[score](case, case.known())
    monkeypatch.setattr(lookahead, "BLOCK", 7)
    monkeypatch.setattr(lookahead, "CHUNK", 8 * 23 * 5)
    close(SCORES[score](case, case.known()), whole, 1e-12)


def with_features(features: Tensor, full: bool, seed: int = 0) -> Problem:
    """The kernel of given features (L + U, d), the same for all outputs; labels that suit nobody."""
    kernel = features @ features.T
    kernel = torch.kron(kernel, torch.eye(O).double()) if full else kernel
    n, points = L * (O if full else 1), len(features)
    residual, prior = draw(L, O, seed=seed + 1), draw(points - L, O, seed=seed + 2)
    return Problem(kernel[:n, :n], kernel[n:, :n], kernel[n:, n:], residual, prior)


@pytest.mark.parametrize("full", [False, True])
def test_copies_and_constant_images(full):
    features = draw(L + U, 40, seed=5)
    features[L], features[L + 1], features[L + 3] = features[0], 0, features[L + 2]  # copy, constant, twins
    case = with_features(features, full)
    case.prior[3] = case.prior[2]
    known = case.known()
    assert known.warning == f"2 of {U} candidates change nothing: the labels determine their outputs already"
    for name, score in SCORES.items():
        scores = score(case, known)
        assert torch.isfinite(scores).all(), name
        close(scores[2], scores[3], 1e-8)
        if "from" in name:  # f_lin as it is, from f_L
            close(scores[:2], distance(known.mean, case.prior).expand(2))
        elif "eer" not in name:
            assert (scores[:2] == 0).all(), name
            assert (scores[2:] > 0).any(), name
    y = case.labels()
    for ahead in (resolve(*case), *([] if full else [block(*case)])):
        close(one_by_one(ahead, y, partial(distance, reference=known.mean)), mlmoc(known, y))
    twin = add(known, 2, y[2])
    assert mlmoc(twin, y)[3] == 0
    assert torch.isfinite(add(twin, 3, -y[3]).mean).all()
    assert torch.equal(add(known, 0, y[0]).mean, known.mean)


@pytest.mark.parametrize(("share", "spent"), [(1e-7, False), (1e-8, False), (1e-10, True), (0.0, True)])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
def test_how_little_a_candidate_may_add(share, spent, full, scale):
    """S[x', x'] above 1e-9 K[x', x'] + 10 jitter counts, and jitter is 1e-10 of the mean diagonal."""
    features = torch.eye(L + U).double()
    features[L] = math.sqrt(1 - share) * features[0] + math.sqrt(share) * features[L]
    case = with_features(scale * features, full)
    assert (mlmoc(case.known(), case.labels())[0] == 0) == spent
    assert bool(case.known().warning) == spent


def test_repeated_labelled_images_are_said():
    features = draw(L + U, 40, seed=5)
    features[1] = features[0]
    case = with_features(features, False)
    known = case.known()
    assert "singular to rounding" in known.warning
    assert known.condition > 1e9
    assert all(torch.isfinite(score(case, known)).all() for score in SCORES.values())


def test_condition_number_of_a_healthy_kernel():
    case = problem()
    exact = np.linalg.cond(case.k_ll.numpy(), 1)
    assert 0.3 * exact < case.known().condition < exact * (1 + 1e-6)
    assert case.known().warning == ""
    assert case.known().jitter == pytest.approx(1e-10 * case.k_ll.diagonal().mean().item())


@pytest.mark.parametrize("full", [False, True])
def test_jitter_grows_until_the_kernel_can_be_factorised(full):
    features = draw(L + U, 4, seed=5)  # rank 4, for 6 labelled points
    case = with_features(features, full)
    case.k_ll.diagonal().sub_(1e-7)
    known = case.known()
    assert known.warning.startswith("the labelled points' kernel is not positive definite: jitter raised to ")
    assert 1e-7 < known.jitter < 2e-5
    assert all(torch.isfinite(score(case, known)).all() for score in SCORES.values())


def test_what_is_no_kernel_is_refused():
    case = problem()
    case.k_ll.diagonal().sub_(10)
    with pytest.raises(UserError, match="negative eigenvalues"):
        case.known()


def test_labelled_points_without_gradients_teach_nothing():
    features = draw(L + U, 40, seed=5)
    features[:L] = 0
    case = with_features(features, False)
    close(case.known().mean, case.prior)
    assert (mlmoc(case.known(), case.labels()) > 0).all()
    silent = with_features(0 * features, False)
    assert (mlmoc(silent.known(), silent.labels()) == 0).all()


def test_single_precision_is_refused():
    with pytest.raises(UserError, match="float64"):
        posterior(*(part.float() for part in problem()))


@pytest.mark.parametrize("place", range(5))
def test_nan_is_refused(place):
    case = problem()
    case[place][1, 0] = case[place][0, 1] = math.nan
    with pytest.raises(UserError, match="NaN"):
        case.known()


@pytest.mark.parametrize("full", [False, True])
def test_blocks_that_do_not_fit_are_refused(full):
    case = problem(full)
    for wrong in (
        case._replace(k_uu=case.k_uu[1:, 1:]),
        case._replace(k_ul=case.k_ul[1:]),
        case._replace(prior=case.prior[:, 1:]),
        case._replace(residual=case.residual[1:]),
    ):
        with pytest.raises(UserError, match=r"fit|square"):
            posterior(*wrong)


def test_only_k_uu_is_overwritten():
    case = Problem(*(part.contiguous() for part in problem()))
    copies = [part.clone() for part in case]
    known = posterior(*case)
    assert known.covariance.data_ptr() == case.k_uu.data_ptr()
    add(known, 0, case.labels()[0])
    mlmoc(known, case.labels(), case.prior)
    for part, copy in zip([*case[:2], *case[3:]], [*copies[:2], *copies[3:]], strict=True):
        assert torch.equal(part, copy)
