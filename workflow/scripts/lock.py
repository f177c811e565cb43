"""Pin every package, transitive ones included: resolve pyproject.toml in a fresh environment and write the versions to
workflow/envs/requirements.txt and environment.yml."""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINS = ROOT / "workflow/envs/requirements.txt"
CONDA = ROOT / "environment.yml"


def direct() -> list[str]:
    """The requirements that pyproject.toml states."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["dependencies"] + project["optional-dependencies"]["test"]


def resolved(requirements: list[str]) -> list[str]:
    """name==version of all that an environment with these requirements holds."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        pip = [sys.executable, "-m", "pip", "--python", f"{folder}/bin/python", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", *requirements], check=True)
        listed = json.loads(subprocess.run([*pip, "list", "--format", "json"], check=True, capture_output=True).stdout)
    return sorted(f"{normal(item['name'])}=={item['version'].split('+')[0]}" for item in listed)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins_text(pins: list[str]) -> str:
    return f"""\
# Every package of the environment at its exact version, transitive ones included; `make lock` rewrites it.
# (Where torch is a CUDA build, it brings nvidia-* packages of its own besides.)
{chr(10).join(pins)}
"""


def conda_text(pins: list[str]) -> str:
    listed = "\n".join(f"      - {pin}" for pin in pins)
    return f"""\
# The same environment for conda users, and the `conda:` of every rule. Written by `make lock`.
name: ntk-bench
channels:
  - conda-forge
  - nodefaults
dependencies:
  - python=3.11
  - pip
  - pip:
{listed}
"""


if __name__ == "__main__":
    pins = resolved(direct())
    PINS.write_text(pins_text(pins))
    CONDA.write_text(conda_text(pins))
