"""NPC's acquisition: its Gram matrix, its argmax over all batches, Proposition 1 and where it fails, the collapse."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from bench import nets
from bench.core.errors import UserError
from bench.core.seeds import stream, torch_stream
from bench.kernels.empirical import gram
from bench.learn.train import predict
from bench.strategies import Query, npc, select

D = 16  # features of the network below


@pytest.fixture(scope="module")
def net():
    return nets.build("convnet+depth=2+activation=leaky-relu", (1, 6, 6), 4, 1, torch_stream(0, "init")).eval()


@pytest.fixture
def query(net):
    x = torch.rand(46, 1, 6, 6, generator=torch_stream(0, "data"))
    return Query(net, x[:6], torch.arange(6) % 4, x[6:])


def drawn(query, size, m, seed):
    """The batches that a query looks at."""
    draw = stream(seed, "query")
    return [draw.choice(len(query.candidates), size, replace=False).tolist() for _ in range(m)]


def last_layer(query):
    """K on labelled images and candidates, from the engine of tangent kernels."""
    x = torch.cat([query.labelled_images, query.candidates]).double()
    return gram(copy.deepcopy(query.net).double(), x, output="trace", layers=["head"])


def spectrum(kernel, query, batch):
    """Eigenvalues of labelled + batch, descending."""
    labelled = len(query.labelled_images)
    rows = [*range(labelled), *(labelled + i for i in batch)]
    return torch.linalg.eigvalsh(kernel[rows][:, rows]).flip(0)


def test_rows_give_the_traces_of_the_last_layer_s_kernel(query):
    x = torch.cat([query.labelled_images, query.candidates]).double()
    double = copy.deepcopy(query.net).double()
    rows = npc.gradients(double, x)
    torch.testing.assert_close(rows @ rows.mT, last_layer(query))
    h = predict(double, x, of=double.features)
    torch.testing.assert_close(last_layer(query), 4 * (h @ h.mT + 1))  # K = C (h.h' + 1)


def cosines(kernel):
    lengths = kernel.diagonal().sqrt()
    return kernel / lengths[:, None] / lengths


def pntk(query):
    x = torch.cat([query.labelled_images, query.candidates]).double()
    return gram(copy.deepcopy(query.net).double(), x, output="pseudo")


KERNELS = {
    "": last_layer,
    "+variant=paper": last_layer,
    "+variant=full": pntk,
    "+variant=normalised": lambda query: cosines(last_layer(query)),
}


@pytest.mark.parametrize("option", KERNELS)
@pytest.mark.parametrize("size", [5, 15])  # N = 11 and 21 for a rank of 17
def test_the_best_of_all_batches_drawn(query, option, size):
    if option == "+variant=paper" and size == 15:
        return  # rounding, below
    chosen = select(f"npc{option}+m=50", query, size, stream(3, "query")).tolist()
    batches, kernel = drawn(query, size, 50, 3), KERNELS[option](query)
    place = 6 + size if option == "+variant=full" else min(6 + size, D + 1)  # of the eigenvalue, from the largest
    scores = [float(spectrum(kernel, query, batch)[place - 1]) for batch in batches]
    assert chosen == batches[int(np.argmax(scores))]
    assert query.notes["score"] == pytest.approx(max(scores), rel=1e-3)
    assert not query.notes["rounding"]
    assert query.notes["tied"] == 1
    assert query.notes.get("rank") == (None if option == "+variant=full" else D + 1)


@pytest.mark.parametrize("size", [5, 15])
def test_the_best_log_determinant(query, size):
    kernel, batches = last_layer(query), drawn(query, size, 50, 3)
    used = [*range(6), *(6 + i for i in sorted({i for batch in batches for i in batch}))]
    ridge = 1e-6 * kernel.diagonal()[used].mean()
    scores = [float((spectrum(kernel, query, batch).clamp(min=0) + ridge).log().sum()) for batch in batches]
    assert select("npc+variant=logdet+m=50", query, size, stream(3, "query")).tolist() == batches[np.argmax(scores)]
    assert query.notes == {"score": pytest.approx(max(scores), rel=1e-3), "rank": D + 1, "tied": 1, "rounding": False}


class Given(nn.Module):
    """A network whose features are its inputs."""

    def __init__(self, d):
        super().__init__()
        self.features, self.head = nn.Flatten(), nn.Linear(d, 1)

    def forward(self, x):
        return self.head(self.features(x))


def given(labelled, candidates):
    known, pool = (torch.tensor(part, dtype=torch.double)[:, :, None, None] for part in (labelled, candidates))
    return Query(Given(known.shape[1]), known, torch.zeros(len(known)), pool)


def test_a_pair_scores_one_minus_the_cosine():
    """The example of 3.3, and that the candidate least aligned with the labelled image is bought."""
    labelled, pool = [[2.0, 0.0]], [[3.0, 0.5], [0.5, 1.0], [-1.0, -1.5], [1.0, 1.0]]
    query = given(labelled, pool)
    cosine = [abs(2 * x + 1) / np.sqrt(5 * (x * x + y * y + 1)) for x, y in pool]  # of (h, 1): weights and bias
    chosen = select("npc+variant=normalised", query, 1, stream(0))
    assert chosen.tolist() == [int(np.argmin(cosine))] == [2]
    assert query.notes["score"] == pytest.approx(1 - min(cosine), rel=1e-3)


def test_rows_that_are_not_normalised_score_at_most_their_square():
    """Un-normalised, a short row bounds the score whatever its direction: the longer, more aligned one is bought."""
    query = given([[4.0, 0.0]], [[-0.25, 0.0], [0.0, 30.0]])
    assert select("npc", query, 1, stream(0)).tolist() == [1]
    assert select("npc+variant=normalised", query, 1, stream(0)).tolist() == [0]


@pytest.mark.parametrize("variant", ["", "+variant=paper", "+variant=logdet", "+variant=normalised"])
def test_proposition_1_no_duplicates_while_there_is_something_else(query, variant):
    few = query.candidates[:6]
    pool = torch.cat([few[:3].repeat(4, 1, 1, 1), few[3:], query.labelled_images[:2]])  # four copies each of three
    degenerate = replace(query, candidates=pool)
    chosen = select(f"npc{variant}+m=300", degenerate, 4, stream(0)).tolist()
    names = [i % 3 if i < 12 else i for i in chosen]
    assert len(set(names)) == 4  # no image twice
    assert not {15, 16} & set(names)  # and none that is labelled already
    assert not degenerate.notes["rounding"]


def test_duplicates_score_zero(query):
    """And where nothing but copies is left, the smallest eigenvalue that they can make non-zero."""
    copies = replace(query, candidates=query.candidates[:1].repeat(9, 1, 1, 1))
    select("npc+variant=paper+m=5", copies, 3, stream(0))
    assert copies.notes == {"score": 0.0, "rank": 7, "tied": 5, "rounding": True}
    select("npc+m=5", copies, 3, stream(0))
    assert copies.notes["tied"] == 5
    expected = spectrum(last_layer(copies), copies, [0, 1, 2])
    assert expected[7:].abs().max() < 1e-12
    assert copies.notes["score"] == pytest.approx(float(expected[6]), rel=1e-3)
    labelled_twice = replace(query, labelled_images=query.labelled_images[[0, 0, 1]])
    select("npc+m=5", labelled_twice, 3, stream(0))
    assert labelled_twice.notes["rounding"]
    assert labelled_twice.notes["tied"] == 5


def test_proposition_1_fails_where_distinct_rows_are_dependent():
    """With the bias, four points of a plane: all rows of K differ, lambda_min is 0 for every batch."""
    query = given([[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [0.0, 0.0], [2.0, 3.0]])
    kernel = last_layer(query)
    assert len(torch.unique(kernel, dim=0)) == 5
    assert abs(float(spectrum(kernel, query, [0, 1])[-1])) < 1e-14
    select("npc+variant=paper", query, 2, stream(0))
    assert query.notes == {"score": 0.0, "rank": 3, "tied": 1000, "rounding": True}
    select("npc", query, 2, stream(0))
    assert query.notes["score"] > 0.1
    assert not query.notes["rounding"]


def test_the_collapse_beyond_d_plus_1_images(query):
    """N = 18 > 17: the paper's score is rounding for every batch, which then is the first drawn; others go on."""
    batches, kernel = drawn(query, 12, 30, 0), last_layer(query)
    noise = 18 * np.finfo(float).eps * float(spectrum(kernel, query, batches[0])[0])
    assert all(abs(float(spectrum(kernel, query, batch)[-1])) < noise for batch in batches)
    assert select("npc+variant=paper+m=30", query, 12, stream(0, "query")).tolist() == batches[0]
    assert query.notes == {"score": 0.0, "rank": 17, "tied": 30, "rounding": True}
    for variant in ("", "+variant=full", "+variant=normalised", "+variant=logdet"):
        select(f"npc{variant}+m=30", query, 12, stream(0, "query"))
        assert not query.notes["rounding"], variant
        assert query.notes["tied"] == 1, variant
    select("npc+variant=paper+m=30", query, 11, stream(0, "query"))  # N = 17
    assert not query.notes["rounding"]


@pytest.mark.parametrize("variant", npc.OPTIONS["variant"])
def test_zero_shot_without_any_label(query, variant):
    none = replace(query, labelled_images=query.labelled_images[:0], labelled_labels=query.labelled_labels[:0])
    option = "" if variant == "nonzero" else f"+variant={variant}"
    assert len(select(f"npc{option}+m=20", none, 5, stream(0))) == 5
    assert none.notes["score"] != 0


def test_images_that_are_not_numbers(query):
    query.candidates[3] = torch.nan
    for variant in ("", "+variant=full"):
        with pytest.raises(UserError, match="not finite"):
            select(f"npc{variant}+m=200", query, 4, stream(0))


def test_bad_numbers(query):
    with pytest.raises(UserError, match=r"npc\+m: found '0'"):
        select("npc+m=0", query, 4, stream(0))
    with pytest.raises(UserError, match="41 labels from 40 candidates"):
        select("npc", query, 41, stream(0))
    with pytest.raises(UserError, match="1000 batches of 0 labels"):
        select("npc", query, 0, stream(0))
