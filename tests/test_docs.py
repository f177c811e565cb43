"""Documents repeat what the code knows, and every command in them can be typed."""

import re
import shlex
import subprocess

import pytest
from conftest import REPO

from bench import __main__ as cli
from bench import docs

COMMANDS = sorted(set(re.findall(r"python -m bench [^\n`#]*[^\n`# ]", docs.README.read_text())))


def test_the_configuration_manual_is_current():
    assert docs.MANUAL.read_text() == docs.manual(), "type: python -m bench docs"


def test_the_readme_s_blocks_are_current():
    text = docs.README.read_text()
    assert set(re.findall("<!-- begin ([a-z-]+) -->", text)) == set(docs.BLOCKS)
    assert text == docs.filled(text), "type: python -m bench docs"


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_readme_parse(command):
    assert cli._parser().parse_args(shlex.split(command)[3:])


def test_files_named_in_the_readme_exist():
    text = docs.README.read_text()
    for path in re.findall(r"\]\(([^)#]+)\)", text):
        assert (REPO / path).exists(), path


def test_targets_named_in_the_readme_exist():
    named = set(re.findall(r"snakemake --cores all ([a-z][\w.-]*)", docs.README.read_text()))
    listed = subprocess.run(
        ["snakemake", "--list-target-rules"], cwd=REPO, capture_output=True, text=True
    ).stdout.split()
    assert named
    assert named <= set(listed)


def test_nothing_of_one_machine_is_tracked():
    tracked = subprocess.run(["git", "ls-files"], cwd=REPO, capture_output=True, text=True).stdout.split()
    for path in tracked:
        assert not path.startswith(("data/", "results/quick", "figures/quick")), path
