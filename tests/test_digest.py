"""A digest changes with the meaning of code that a job depends on, and with nothing else."""

import shutil
import subprocess
import sys

import pytest
from conftest import REPO

PRINT = """
from bench.core import digest
for strategy in ("random", "margin"):
    print(digest.of_cell("lookahead", "digits", "wrn+layers=2", strategy))
print(digest.of("bench.studies.lookahead.tables", "bench.published"))
print(digest.of("bench.studies.lookahead.figures.thesis_2_2", "bench.studies.lookahead.figures"))
print(digest.of("bench.studies.lookahead.figures.lookahead_ranks", "bench.studies.lookahead.figures"))
"""
NAMES = ("random", "margin", "tables", "2.2", "ranks")


@pytest.fixture
def tree(tmp_path):
    shutil.copytree(REPO / "bench", tmp_path / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def digests(tree):
    output = subprocess.run([sys.executable, "-c", PRINT], cwd=tree, capture_output=True, text=True, check=True).stdout
    return dict(zip(NAMES, output.split(), strict=True))


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("train.py", "import math\n", "import math  # a comment\n\n\n", set()),
        ("train.py", "Supervised training", "Supervised learning", set()),  # a docstring
        ("progress.py", "total // 10", "total // 20", set()),  # only what is said
        ("train.py", "net.train()", "net.train(True)", {"random", "margin"}),
        ("nets/_wrn.py", "import", "import math\nimport", {"random", "margin"}),
        ("nets/fcn.py", "import", "import math\nimport", set()),
        ("datasets/digits.py", "(0.0,)", "(0.1,)", {"random", "margin"}),
        ("datasets/mnist.py", "(0.0,)", "(0.1,)", set()),
        ("strategies/margin.py", "ordered[:, 0]", "1 * ordered[:, 0]", {"margin"}),
        ("probability.py", "(min=1e-6)", "(min=1e-7)", {"margin"}),
        ("figures/thesis_2_2.py", "NAME =", "OTHER = 1\nNAME =", {"2.2"}),
        ("figures/_curves.py", "import", "import math\nimport", {"2.2"}),
        ("figures/_style.py", "import", "import math\nimport", {"2.2", "ranks"}),
        ("published/thesis-2.1.csv", "0.0045", "0.0046", {"tables"}),
        ("stats.py", "import", "import math\nimport", {"tables"}),
    ],
)
def test_what_an_edit_touches(tree, file, old, new, changed):
    before = digests(tree)
    path = tree / "bench" / file
    text = path.read_text()
    at = text.index(old, text.index('"""', 3) if old == "import" else 0)
    path.write_text(text[:at] + new + text[at + len(old) :])
    after = digests(tree)
    assert {name for name in NAMES if before[name] != after[name]} == changed
