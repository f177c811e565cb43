"""What several test files need: the repository, prepared digits, one small cell, ways of contraction."""

import json
import os
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest
import torch
from definition import WAYS

from bench.core.config import check
from bench.kernels import convolution as convolution_module
from bench.kernels import tangents as tangents_module
from bench.learn import data
from bench.studies import lookahead
from bench.studies.lookahead import Cell

REPO = Path(__file__).parents[1]
TINY = {
    "scale": "tiny",
    "lookahead": {
        "seeds": [0, 1],
        "recipes": {"l2": {"epochs": 4, "batch": 8, "lr": 0.5}},
        "protocol": {"digits": {"initial": 12, "query": 5, "subset": 40, "cycles": 3}},
        "panels": {
            "thesis-2.2a": {
                "dataset": "digits",
                "net": "wrn",
                "width": 8,
                "recipe": "l2",
                "strategies": ["random", "entropy", "margin"],
            }
        },
    },
}

torch.set_num_threads(1)
hypothesis.settings.register_profile("suite", deadline=None, derandomize=True)  # no timing in tests, same every time
hypothesis.settings.load_profile("suite")


@pytest.fixture(scope="session")
def root(tmp_path_factory) -> Path:
    """A data folder that holds the digits."""
    folder = tmp_path_factory.mktemp("data")
    data.prepare("digits", folder)
    return folder


def tiny_with(**changes) -> dict:
    """The tiny configuration with other values in its study's section."""
    return TINY | {"lookahead": TINY["lookahead"] | changes}


@pytest.fixture(scope="session")
def tiny() -> dict:
    return check(TINY, "tests")


@pytest.fixture(scope="session")
def cell() -> Cell:
    return Cell("digits", "wrn", 8, "l2", "entropy", 0)


@pytest.fixture(scope="session")
def settings(tiny, cell) -> dict:
    return lookahead.settings(tiny, cell)


@pytest.fixture
def way(request, monkeypatch):
    """Every convolution contracted in one given way, or in the cheapest (None)."""
    if request.param is not None:
        monkeypatch.setattr(convolution_module, "cheapest_convolution", lambda site: WAYS[request.param])
        monkeypatch.setattr(tangents_module, "in_tail", lambda zs, phi, f: [False] * len(zs))
    return request.param


def bench(*words: str | Path, cwd: Path = REPO, **more) -> subprocess.CompletedProcess:
    """`python -m bench ...` as a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(REPO)} | more.pop("env", {})
    command = [sys.executable, "-m", "bench", *map(str, words)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, **more)


def run_words(cell: Cell, settings: dict, root: Path, out: Path) -> list[str]:
    """The words after `python -m bench` that run a cell."""
    words = ["run", "lookahead", str(cell), "--scale", "tiny", "--settings", json.dumps(settings)]
    return [*words, "--root", str(root), "--out", str(out), "--save-every", "2", "--device", "cpu"]
