"""One set of pins: pyproject.toml, workflow/envs/requirements.txt, environment.yml and what is installed agree."""

import importlib.metadata
import importlib.util
import re
import tomllib

import yaml
from conftest import REPO

spec = importlib.util.spec_from_file_location("lock", REPO / "workflow/scripts/lock.py")
lock = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lock)
PINS = [line for line in lock.PINS.read_text().splitlines() if not line.startswith("#")]


def test_every_direct_requirement_is_pinned_as_stated():
    assert set(lock.direct()) <= set(PINS)


def test_both_files_say_the_same():
    assert lock.PINS.read_text() == lock.pins_text(PINS)
    assert lock.CONDA.read_text() == lock.conda_text(PINS)
    *_, pip = yaml.safe_load(lock.CONDA.read_text())["dependencies"]
    assert pip["pip"] == PINS


def test_python_versions_agree():
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11,<3.12"
    assert "python=3.11" in lock.CONDA.read_text()


def test_installed_as_pinned():
    names = [pin.split("==")[0] for pin in PINS]
    assert [f"{name}=={importlib.metadata.version(name).split('+')[0]}" for name in names] == PINS


def test_transitive_requirements_are_pinned():
    pinned = {pin.split("==")[0] for pin in PINS}
    for pin in PINS:
        for requirement in importlib.metadata.requires(pin.split("==")[0]) or []:
            name = lock.normal(re.match(r"[A-Za-z0-9._-]+", requirement)[0])
            conditional = ";" in requirement  # extras, other systems, other Pythons, CUDA builds
            assert conditional or name in pinned, f"{pin} needs {name}"
