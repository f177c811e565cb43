"""Peers that cannot live in the suite's environment, each installed into one of its own when first asked for."""

import subprocess
import sys
from pathlib import Path

from bench.core.config import ROOT
from bench.core.errors import UserError
from bench.core.progress import say

# neural-tangents' last release works with this jax and no newer numpy; its dependencies would bring tensorflow.
PINS = {
    "neural-tangents": [
        "jax==0.4.25",
        "jaxlib==0.4.25",
        "numpy==1.26.4",
        "scipy==1.12.0",
        "ml-dtypes==0.5.4",
        "opt-einsum==3.4.0",
        "frozendict==2.5.1",
        "absl-py==2.5.1",
        "flatbuffers==25.12.19",
        "neural-tangents==0.6.5",
    ]
}


def python_of(peer: str) -> str:
    """The interpreter of a peer's environment, which is made first if need be."""
    folder = ROOT / ".venv-peers" / peer
    python = folder / "bin/python"
    if not (folder / "ready").is_file():
        say(f"installing {peer} into {folder.relative_to(ROOT)} (once)")
        pip = [sys.executable if _has_pip() else sys._base_executable, "-m", "pip"]  # .venv is made without pip
        try:
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", str(folder)], check=True)
            quiet = ["--disable-pip-version-check", "-q", "--no-deps"]
            subprocess.run([*pip, "--python", str(python), "install", *quiet, *PINS[peer]], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UserError(f"{peer} could not be installed ({error}); leave out --peers, or see {__file__}") from None
        _unhook_tensorflow(folder)
        (folder / "ready").touch()
    return str(python)


def _has_pip() -> bool:
    return subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0


def _unhook_tensorflow(folder: Path) -> None:
    """neural_tangents.experimental imports tensorflow, which nothing here needs."""
    for path in folder.glob("lib/python*/site-packages/neural_tangents/experimental/__init__.py"):
        path.write_text("")
