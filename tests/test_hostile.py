"""Whatever a configuration says, it is read as values: nothing runs, nothing is written outside the tree."""

import pytest
import yaml
from conftest import REPO, TINY, tiny_with
from test_workflow import copy_of, snakemake

pytestmark = pytest.mark.slow

PANEL = TINY["lookahead"]["panels"]["thesis-2.2a"]
EVIL = "$(touch pwned)"
CONFIGURATIONS = {
    "recipe": tiny_with(panels={"thesis-2.2a": PANEL | {"recipe": f"l2+epochs=#{EVIL}\r1"}}),
    "recipe-value": tiny_with(panels={"thesis-2.2a": PANEL | {"recipe": f"l2+epochs=1;{EVIL}"}}),
    "recipe-name": tiny_with(recipes={f"l2;{EVIL}": {}}, panels={"thesis-2.2a": PANEL | {"recipe": f"l2;{EVIL}"}}),
    "strategy": tiny_with(panels={"thesis-2.2a": PANEL | {"strategies": [f"random;{EVIL}"]}}),
    "strategy-option": tiny_with(panels={"thesis-2.2a": PANEL | {"strategies": [f"naive+epochs={EVIL}"]}}),
    "net": tiny_with(panels={"thesis-2.2a": PANEL | {"net": f"wrn`{EVIL}`"}}),
    "dataset": tiny_with(panels={"thesis-2.2a": PANEL | {"dataset": "../../digits"}}),
    "panel": tiny_with(panels={f"x'{EVIL}": PANEL}),
    "scale": TINY | {"scale": f"x;{EVIL}"},
    "scale-up": TINY | {"scale": ".."},
    "scale-line": TINY | {"scale": "tiny\n"},
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return copy_of(REPO, tmp_path_factory.mktemp("hostile") / "tree")


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_hostile_names_are_refused_in_one_line(name, tree):
    (tree / "x.yaml").write_text(yaml.safe_dump(CONFIGURATIONS[name]))
    before = {path for path in tree.rglob("*") if ".snakemake" not in path.parts and "__pycache__" not in path.parts}
    output = snakemake(tree, "lookahead_tables", "--cores", "1", "--configfile", "x.yaml", check=False)
    after = {path for path in tree.rglob("*") if ".snakemake" not in path.parts and "__pycache__" not in path.parts}
    assert after == before  # no record, no log, no `pwned`
    assert "Traceback" not in output
    assert len([line for line in output.splitlines() if "x.yaml: " in line]) == 1, output


def test_a_hostile_data_folder_is_a_folder(tree, tmp_path):
    """A path may hold anything; it is quoted, so the run works and nothing else does."""
    root = f"da ta'; {EVIL} \"&& x"
    panel = PANEL | {"strategies": ["random"]}
    config = tiny_with(seeds=[0], panels={"thesis-2.2a": panel}) | {"data": {"root": root}, "scale": "odd"}
    (tree / "odd.yaml").write_text(yaml.safe_dump(config))
    snakemake(tree, "lookahead_tables", "--cores", "1", "--configfile", "odd.yaml")
    assert (tree / root / "digits.npz").is_file()
    assert len(list((tree / "results/odd/runs").rglob("seed-0.json"))) == 1
    assert not list(tree.rglob("pwned"))
