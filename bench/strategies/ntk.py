"""ntk: the candidates whose label would change the network's outputs most, by its tangent kernel (thesis 2.2, MLMOC).

Retraining with a candidate x' and its pseudo-label y' = argmax f_L(x') is replaced by the exact solution of the network
linearised at its trained weights, batch normalisation in evaluation mode, everything in float64. The thesis and its
released code differ; each choice is an option:

    kernel     pseudo      sum of the outputs / sqrt(O), the pNTK of ch. 3: what the code does
               first       the first output: what 2.2 says
               full        the eNTK with its O x O blocks, O^2 times the memory: 8 ((L + U) O)^2 bytes
    objective  mlmoc       sum over all candidates of the L2 change of outputs (2.13)
               flips       how many candidates change their predicted class: what the code does
               emoc, eer   expectation over y' of that change (2.3); minus the expected entropy afterwards (2.2)
               eer-max     1 - the largest simplex probability in place of the entropy: what the code does
    reference  network     changes are measured from f_L: what (2.13) prints
               linear      from f_lin, what the linearised network would become without x'. The same if f_L fits its
                           labels; otherwise `network` also counts how x' alters what there is still to fit
    solve      posterior   all candidates at once from the posterior covariance
               resolve     an (L + 1) x (L + 1) system per candidate, the thesis' "NTK w/o Block"; the same choices
    query      batch       the best `size` candidates
               sequential  the best one, its true label revealed and added to the linearised network, which then chooses
                           and guesses the next, without SGD in between; measured from f_lin, as in the code

p(y | x') is the projection of the outputs on the simplex, as in the code. EER needs no reference.

`audit=sample` also retrains the network, as `naive` does, with each of AUDITED random candidates, twice with batches in
another order, and notes the scores beside its own: how well the linearised network foretells retraining, and how well
retraining foretells itself. What is bought stays the same.
"""

import copy
from dataclasses import replace

import numpy as np
import torch

from bench.core.errors import UserError
from bench.kernels.empirical import gram
from bench.kernels.lookahead import Posterior, add
from bench.learn.train import predict
from bench.strategies import Query, naive, top
from bench.strategies._lookahead import BUDGET, OBJECTIVES, images, known, one_hot, resolved

OPTIONS = {
    "kernel": ("pseudo", "first", "full"),
    "objective": ("mlmoc", "flips", "emoc", "eer", "eer-max"),
    "reference": ("network", "linear"),
    "solve": ("posterior", "resolve"),
    "query": ("batch", "sequential"),
    "audit": ("none", "sample"),
}
AUDITED = 30  # candidates


def select(
    given: Query,
    size: int,
    stream: np.random.Generator,
    kernel: str,
    objective: str,
    reference: str,
    solve: str,
    query: str,
    audit: str,
) -> np.ndarray:
    if audit == "sample" and (solve, query) != ("posterior", "batch"):
        raise UserError("ntk: audit=sample is for batch queries from the posterior; leave it out of the name")
    if (solve, query) == ("resolve", "sequential"):
        raise UserError("ntk: solve=resolve is for batch queries; leave it or query=sequential out of the name")
    if reference == "linear" and (query == "sequential" or objective.startswith("eer")):
        raise UserError(f"ntk: reference=linear says nothing new with {objective}, {query}; leave it out of the name")
    net, x = copy.deepcopy(given.net).double(), images(given)
    f = predict(net, x)  # f_L, (L + U, O)
    theta = gram(net, x, output=kernel, budget=BUDGET, progress=len(x) > 1000)
    mine = f[len(given.labelled_images) :]  # (U, O)
    measured_from = mine if reference == "network" else None
    if solve == "resolve":
        return top(resolved(given, theta, f, objective, measured_from), size, stream)
    state = known(given, theta, f)
    if query == "sequential":
        return _one_by_one(given, size, stream, state, objective)
    scores = OBJECTIVES[objective](state, mine, measured_from)  # (U,)
    chosen = top(scores, size, stream)
    if audit == "sample":
        given.notes |= _audit(given, scores, stream)
    return chosen


def _audit(given: Query, scores: torch.Tensor, stream: np.random.Generator) -> dict[str, list[float]]:
    """Scores of a sample by the linearised network, by retraining, and by retraining again."""
    sample = stream.permutation(len(given.candidates))[:AUDITED]
    alone = replace(given, saved={}, save=lambda found: None)
    epochs = naive.OPTIONS["epochs"]
    retrained = [naive.scores(alone, sample, epochs, int(stream.integers(2**63))).tolist() for _ in range(2)]
    foretold = scores[torch.from_numpy(sample)].tolist()
    return {"audit_foretold": foretold, "audit_retrained": retrained[0], "audit_again": retrained[1]}


def _one_by_one(given: Query, size: int, stream: np.random.Generator, state: Posterior, objective: str) -> np.ndarray:
    if given.oracle is None:
        raise UserError("ntk+query=sequential asks for labels one by one: its Query must come with an oracle")
    left, bought = np.arange(len(given.candidates)), []
    while len(bought) < size:
        scores = OBJECTIVES[objective](state, state.mean, None)  # (U,)
        best = int(left[top(scores[torch.from_numpy(left)], 1, stream)[0]])
        label = torch.tensor(given.oracle(best), device=state.mean.device)
        state = add(state, best, one_hot(label, state.mean.shape[1]))
        bought.append(best)
        left = left[left != best]
    return np.array(bought)
