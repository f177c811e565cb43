"""A digest changes with the meaning of code that a job depends on, and with nothing else."""

import os
import shutil
import subprocess
import sys

import pytest
import yaml
from conftest import REPO, TINY

from bench.core import digest

PRINT = """
from bench.core import digest
from bench.studies.lookahead import Cell
for strategy in ("random", "margin"):
    print(digest.of_cell("lookahead", Cell("digits", "wrn+layers=2", 8, "l2", strategy, 0)))
print(digest.of_tables("lookahead"))
print(digest.of("bench.studies.lookahead.figures.thesis_2_2", "bench.report.figure"))
print(digest.of("bench.studies.lookahead.figures.lookahead_ranks", "bench.report.figure"))
"""
NAMES = ("random", "margin", "tables", "2.2", "ranks")


@pytest.fixture
def tree(tmp_path):
    shutil.copytree(REPO / "bench", tmp_path / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


IMPORTED = """
import sys
from bench.__main__ import main
cell = "digits/wrn/width-8/l2/{strategy}/seed-0"
assert main(["run", "lookahead", cell, "--scale", "tiny.yaml", "--root", sys.argv[1], "--out", "x.json"]) == 0
from bench.core import digest
from bench.studies.lookahead import Cell
covered = set(digest.covered(*digest.modules_of_cell("lookahead", Cell.parse(cell))))
imported = {{name for name in sys.modules if name.split(".")[0] == "bench"}}
print(sorted(name for name in imported - covered if not digest.exempt(name)), sorted(covered - imported))
"""


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["random", "ntk", "ll4al", "gp"])
def test_a_digest_covers_what_a_run_imports(strategy, root, tmp_path):
    """All of it, but for modules exempt with a reason."""
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    code = IMPORTED.format(strategy=strategy)
    environment = os.environ | {"PYTHONPATH": str(REPO)}
    command = [sys.executable, "-c", code, str(root)]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    read = "['bench.datasets', 'bench.datasets.digits']"  # their facts are read from the source, without an import
    assert result.stdout.splitlines()[-1:] == [f"['bench.__main__'] {read}"], result.stdout + result.stderr


def test_every_exemption_has_a_reason():
    for module, reason in digest.EXEMPT.items():
        assert digest._file(module), module
        assert reason


def digests(tree):
    output = subprocess.run([sys.executable, "-c", PRINT], cwd=tree, capture_output=True, text=True, check=True).stdout
    return dict(zip(NAMES, output.split(), strict=True))


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("learn/train.py", "import math\n", "import math  # a comment\n\n\n", set()),
        ("learn/train.py", "Supervised training", "Supervised learning", set()),  # a docstring
        ("core/progress.py", "total // 10", "total // 20", set()),  # only what is said
        ("learn/train.py", "net.train()", "net.train(True)", {"random", "margin"}),
        ("nets/_wrn.py", "import", "import math\nimport", {"random", "margin"}),
        ("nets/fcn.py", "import", "import math\nimport", set()),
        ("datasets/digits.py", "(0.0,)", "(0.1,)", {"random", "margin"}),
        ("datasets/mnist.py", "(0.0,)", "(0.1,)", set()),
        ("strategies/margin.py", "ordered[:, 0]", "1 * ordered[:, 0]", {"margin"}),
        ("learn/probability.py", "(min=1e-6)", "(min=1e-7)", {"margin"}),
        ("studies/lookahead/figures/thesis_2_2.py", "NAME =", "OTHER = 1\nNAME =", {"2.2"}),
        ("studies/lookahead/figures/_curves.py", "import", "import math\nimport", {"2.2"}),
        ("report/style.py", "import", "import math\nimport", {"2.2", "ranks"}),
        ("studies/lookahead/published/thesis-2.1.csv", "0.0045", "0.0046", {"tables"}),
        ("studies/lookahead/claims.csv", "0.955", "0.956", {"tables"}),
        ("studies/lookahead/run.py", "import", "import math\nimport", {"random", "margin"}),
        ("core/run.py", "import", "import math\nimport", {"random", "margin"}),
        ("core/locks.py", "import", "import math\nimport", set()),  # exempt, as EXEMPT says
        ("studies/lookahead/__init__.py", "without {strategy}", "lacking {strategy}", {"tables"}),
        ("studies/lookahead/schema.yaml", "lr: 1.0", "lr: 1.1", {"tables"}),
        ("studies/lookahead/timed.py", "== value", "!= value", {"random", "margin", "tables"}),
        ("core/study.py", "(paper {self.paper})", "(paper: {self.paper})", {"tables"}),
        ("core/memory.py", "// 2", "// 3", set()),  # no kernel here
        ("report/stats.py", "import", "import math\nimport", {"tables"}),
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
