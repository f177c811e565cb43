"""neural-tangents cannot live in the suite's environment: it is installed into one of its own when first asked for."""

import subprocess
import sys

from bench.core.config import ROOT
from bench.core.errors import UserError
from bench.core.progress import say

# Its last release works with this jax and no newer numpy; its dependencies would bring tensorflow.
PINS = """jax==0.4.25 jaxlib==0.4.25 numpy==1.26.4 scipy==1.12.0 ml-dtypes==0.5.4 opt-einsum==3.4.0 frozendict==2.5.1
    absl-py==2.5.1 flatbuffers==25.12.19 neural-tangents==0.6.5"""
FOLDER = ROOT / ".venv-peers/neural-tangents"


def neural_tangents_python() -> str:
    """The interpreter of its environment, which is made first if need be."""
    python = FOLDER / "bin/python"
    if not (FOLDER / "ready").is_file():
        say(f"installing neural-tangents into {FOLDER.relative_to(ROOT)} (once)")
        has_pip = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0
        pip = [sys.executable if has_pip else sys._base_executable, "-m", "pip"]  # .venv is made without pip
        options = ["--disable-pip-version-check", "-q", "--no-deps"]
        try:
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", str(FOLDER)], check=True)
            subprocess.run([*pip, "--python", str(python), "install", *options, *PINS.split()], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UserError(f"neural-tangents could not be installed ({error}); leave out --peers") from None
        for path in FOLDER.glob("lib/python*/site-packages/neural_tangents/experimental/__init__.py"):
            path.write_text("")  # it imports tensorflow, which nothing here needs
        (FOLDER / "ready").touch()
    return str(python)
