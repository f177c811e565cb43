"""What is said of random batches, beside the same numbers computed slowly, batch by batch and image by image."""

import math

import numpy as np
import pytest
import torch

from bench import nets
from bench.core.seeds import stream, torch_stream
from bench.strategies import Query
from bench.studies.npc.batches import MEASURES, eigenvalues, measure

LABELLED, CANDIDATES, CLASSES = 5, 30, 10


def query_of(width: int) -> Query:
    """A random network of so many features, some labelled images and candidates."""
    net = nets.build("wrn-small+layers=1", (1, 8, 8), CLASSES, width, torch_stream(0, "init")).train()
    x = torch.rand(LABELLED + CANDIDATES, 1, 8, 8, generator=torch_stream(0, "data"))
    with torch.no_grad():
        for _ in range(20):  # else all images look alike to the averages of batch normalisation
            net(x)
        net.head.weight.mul_(20)  # and a network should be surer of some than of others
    return Query(net.eval(), x[:LABELLED], torch.arange(LABELLED), x[LABELLED:])


def labels() -> torch.Tensor:
    return torch.randint(CLASSES, (CANDIDATES,), generator=torch_stream(0, "labels"))


def slowly(query: Query, batch: list[int], y: list[int]) -> dict[str, float]:
    """Every measure of one batch."""
    with torch.no_grad():
        outputs = query.net(query.candidates).double()
        h = [query.net.features(x).double().numpy() for x in (query.labelled_images, query.candidates)]
    known, pool = ([np.sqrt(CLASSES) * np.append(row, 1.0) for row in rows] for rows in h)
    rows = [*known, *(pool[i] for i in batch)]
    n, d = len(rows), len(rows[0])
    kernel = np.array([[a @ b for b in rows] for a in rows])
    spectrum = sorted(np.linalg.eigvalsh(kernel), reverse=True)
    cosines = np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in rows] for a in rows])
    before = [min(np.linalg.norm(row - other) for other in known) for row in pool]
    after = [min(np.linalg.norm(row - other) for other in rows) for row in pool]
    p = [np.exp(row) / np.exp(row).sum() for row in outputs.numpy()]
    shares = [sum(y[i] == label for i in batch) / len(batch) for label in range(CLASSES)]
    return {
        "lambda_min": spectrum[-1] if n <= d else 0.0,
        "nonzero": spectrum[min(n, d) - 1],
        "logdet": sum(math.log(value + 1e-6) for value in np.linalg.eigvalsh(cosines)),
        "coverage": np.mean(after) - np.mean(before),
        "uncertain": np.mean([1 - p[i].max() for i in batch]),
        "wrong": np.mean([p[i].argmax() != y[i] for i in batch]),
        "balance": -sum(share * math.log(share) for share in shares if share) / math.log(CLASSES),
    }


@pytest.mark.parametrize(
    ("width", "size"), [(16, 6), (16, 12), (8, 6), (4, 6)], ids=["within", "at the rank", "beyond", "far beyond"]
)
def test_measures_are_those_of_a_slow_computation(width, size):
    """Kernels of 11 or 17 images have a rank of 17 at most, or of 9 or 5."""
    query, y = query_of(width), labels()
    found = measure(query, size, 12, y, stream(3, "criteria"))
    assert list(found) == list(MEASURES)
    draws = stream(3, "criteria")
    expected = [slowly(query, draws.choice(CANDIDATES, size, replace=False).tolist(), y.tolist()) for _ in range(12)]
    # Features are float32: what is small beside a kernel's largest eigenvalue is known to fewer digits
    within = {"lambda_min": 1e-3, "nonzero": 1e-3, "logdet": 1e-3}
    for name in MEASURES:
        theirs = [each[name] for each in expected]
        assert found[name] == pytest.approx(theirs, rel=within.get(name, 1e-4), abs=1e-7), name
        if name != "lambda_min" or LABELLED + size <= width + 1:
            assert np.ptp(theirs) > 0, f"{name} tells no batches apart: nothing was compared"
    assert any(found["lambda_min"]) == (LABELLED + size <= width + 1)
    assert all(value <= 0 for value in found["coverage"])


def test_a_draw_belongs_to_its_stream_and_numbers_have_six_digits():
    query, y = query_of(8), labels()
    three, five = (measure(query, 6, count, y, stream(0, "criteria")) for count in (3, 5))
    assert all(five[name][:3] == three[name] for name in MEASURES)
    assert measure(query, 6, 3, y, stream(1, "criteria")) != three
    assert all(value == float(f"{value:.6g}") for values in five.values() for value in values)


def test_eigenvalues_by_hand():
    """Rows (3, 0), (0, 2): K = diag(9, 4). With (0, 1) beneath, K has rank two, and its eigenvalues are 9, 5 and 0."""
    rows = torch.tensor([[3.0, 0.0], [0.0, 2.0], [0.0, 1.0]], dtype=torch.float64)
    assert eigenvalues(rows[:1]) == pytest.approx((9, 9))
    assert eigenvalues(rows[:2]) == pytest.approx((4, 4))
    assert eigenvalues(rows) == (0, pytest.approx(5))


def test_a_batch_of_one_class_has_no_balance_and_one_of_all_has_all():
    query = query_of(8)
    same = torch.full((CANDIDATES,), 4)
    assert measure(query, 10, 2, same, stream(0, "criteria"))["balance"] == [0, 0]
    few = Query(query.net, query.labelled_images, query.labelled_labels, query.candidates[:CLASSES])
    assert measure(few, CLASSES, 1, torch.arange(CLASSES), stream(0, "criteria"))["balance"] == [1]
