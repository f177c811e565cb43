"""The workflow itself: linted, planned, run end to end, re-run only where it must be, reported, submitted."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import REPO, TINY, tiny_with

from bench.core import config as configuration
from bench.core import study
from bench.learn import data
from bench.studies import lookahead

pytestmark = pytest.mark.slow
SOURCES = ("Snakefile", "bench", "workflow", "config", "profiles", "environment.yml", "README.md", "docs")


def snakemake(tree: Path, *words: str, check: bool = True) -> str:
    """Run Snakemake in a tree; its whole output."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "snakemake", *words]
    result = subprocess.run(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600
    )
    assert not check or result.returncode == 0, result.stdout
    return result.stdout


def planned(tree: Path, *words: str) -> dict[str, int]:
    """Job counts by rule that a dry run announces ('all' left out)."""
    output = snakemake(tree, *words, "-n", "-q", "rules")
    if "Nothing to be done" in output:
        return {}
    counts = re.findall(r"^([\w.-]+) +(\d+)$", output, flags=re.MULTILINE)
    assert counts, output
    return {
        name: int(count) for name, count in counts if name not in ("total", "all", "figures", "tables", *study.names())
    }


def copy_of(source: Path, target: Path) -> Path:
    target.mkdir(parents=True)
    for name in SOURCES:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source / name, target / name)
    return target


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The tracked sources without data or results."""
    tree = copy_of(REPO, tmp_path_factory.mktemp("bare") / "tree")
    (tree / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    return tree


TINY_RUN = ("--configfile", "tiny.yaml")


@pytest.fixture(scope="module")
def ran(bare, tmp_path_factory):
    """A tree in which the tiny scale has run."""
    tree = tmp_path_factory.mktemp("ran") / "tree"
    shutil.copytree(bare, tree)
    snakemake(tree, "--cores", "2", *TINY_RUN)
    return tree


@pytest.fixture
def edited(ran, tmp_path):
    """A copy of the tree that ran, free to be changed; file times kept."""
    tree = tmp_path / "tree"
    shutil.copytree(ran, tree)
    return tree


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


FIGURES = dict.fromkeys(study.figures("lookahead"), 1)  # of the tiny scale, which has one study
TABLES = {"lookahead_tables": 1, "claims": 1}


def test_lint_is_clean(bare):
    assert "Congratulations" in snakemake(bare, "--lint")


def test_every_word_of_every_command_is_quoted():
    """Whatever a configuration says, a shell sees text. `{threads}` is Snakemake's own number."""
    for path in (REPO / "workflow/rules").glob("*.smk"):
        text = path.read_text()
        commands = re.findall(r"shell:\s*((?:\s*\"[^\n]*\"\n?)+)", text)
        assert len(commands) == text.count("shell:")
        for place in re.findall(r"\{([^{}]+)\}", "".join(commands)):
            assert place.endswith(":q") or place == "threads", (path.name, place)


def test_every_rule_has_log_benchmark_resources_and_conda():
    for path in (REPO / "workflow/rules").glob("*.smk"):
        for rule in re.split(r"^ *rule\b", path.read_text(), flags=re.MULTILINE)[1:]:
            for directive in ("log:", "benchmark:", "resources:", "conda:", "shell:"):
                assert directive in rule, (path.name, rule[:40], directive)
            assert ">> {log" in rule


def test_paper_scale_lists_the_full_grid_without_data(bare):
    counts = planned(bare, "--config", "scale=paper")
    paper = configuration.load("paper")
    every = {name: study.load(name).cells(paper) for name in study.names()}
    tables = {f"{name}_tables": 1 for name in every} | {"claims": 1}
    figures = dict.fromkeys(study.all_figures(), 1)
    staged = [names for cell in every["pntk"] for names in study.load("pntk").stages(paper, cell)]
    # the thesis' four datasets, and digits for an experiment of the theory study
    jobs = {"data": 4 + 1, "cell": sum(map(len, every.values())), "stage": sum(map(len, staged))}
    assert counts == figures | tables | jobs
    cells = every["lookahead"]
    settings = {(cell.dataset, cell.net, cell.width, cell.recipe) for cell in cells}
    # the seven settings of figs 2.2 and A.1, four further widths, cross-entropy, six rates of A.2a, ten of A.3,
    # seven for what the released code does differently, one with few candidates and one with cold starts
    assert len(settings) == 7 + 4 + 1 + 6 + 10 + 7 + 1 + 1
    assert len(cells) == 6 * len({(*setting, strategy) for setting in settings for strategy in shown(paper, setting)})


def shown(config: dict, setting: tuple) -> set[str]:
    """The strategies that any panel shows in a setting."""
    panels = config["lookahead"]["panels"].values()
    same = [p for p in panels if (p["dataset"], p["net"], p["width"], p["recipe"]) == setting]
    return {strategy for panel in same for strategy in panel["strategies"]}


@pytest.mark.parametrize("scale", sorted(path.stem for path in (REPO / "config").glob("*.yaml")))
def test_every_shipped_scale_plans(bare, scale):
    config = configuration.load(scale)
    cells = [cell for name in config["studies"] for cell in study.load(name).cells(config)]
    assert planned(bare, "--config", f"scale={scale}")["cell"] == len(cells)


@pytest.mark.parametrize(
    ("target", "figures"), [("thesis-2.2", {"thesis-2.2": 1}), ("figures", FIGURES), ("tables", {})]
)
def test_targets(bare, target, figures):
    counts = planned(bare, target)
    assert {name: count for name, count in counts.items() if name in FIGURES} == figures


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scale: x\nlookahed: {}\n", "x.yaml: unknown key 'lookahed'; did you mean 'lookahead'?"),
        ("scale: x\nlookahead: {seeds: []}\n", "x.yaml: lookahead.seeds: found []"),
    ],
)
def test_a_wrong_configuration_is_one_line_and_starts_nothing(bare, text, message):
    (bare / "x.yaml").write_text(text)
    output = snakemake(bare, "--cores", "1", "--configfile", "x.yaml", check=False)
    assert message in output
    assert "Traceback" not in output
    assert len([line for line in output.splitlines() if "Using workflow specific profile" not in line]) == 1
    assert not (bare / "results/x").exists()


def test_the_tiny_scale_makes_every_table_and_figure(ran):
    assert {path.name for path in (ran / "figures/tiny").iterdir()} == {
        f"{name}.{kind}" for name in FIGURES for kind in ("png", "pdf")
    }
    assert {path.stem for path in (ran / "results/tiny/tables").iterdir()} == {*lookahead.TABLES, "claims"}
    assert len(list((ran / "results/tiny/runs").rglob("seed-?.json"))) == 6
    assert not list((ran / "results/tiny/resume").rglob("*.pt"))


def test_a_second_run_has_nothing_to_do(ran):
    assert planned(ran, *TINY_RUN) == {}


def test_an_archive_brings_the_records_back_as_done(ran, bare, tmp_path):
    tree = tmp_path / "elsewhere"
    shutil.copytree(bare, tree)
    told = run(ran, "archive", "--scale", "tiny.yaml")
    assert re.fullmatch(r"results/tiny/records/lookahead\.tar\.xz: 6 records, \d+ kB\n", told)
    packed = ran / "results/tiny/records/lookahead.tar.xz"
    before = packed.read_bytes()
    for path in (ran / "results/tiny/runs").rglob("*.json"):  # other times and rights, same records
        os.utime(path, (1, 1))
        path.chmod(0o600)
    run(ran, "archive", "--scale", "tiny.yaml")
    assert packed.read_bytes() == before
    shutil.copytree(ran / "results/tiny/records", tree / "results/tiny/records")
    assert "6 records restored, 0 were there already" in run(tree, "restore", "--scale", "tiny.yaml")
    assert planned(tree, "lookahead_tables", *TINY_RUN) == {"lookahead_tables": 1}  # nothing runs, no data needed
    snakemake(tree, "lookahead_tables", "--cores", "1", *TINY_RUN)
    for table in lookahead.TABLES:
        made, original = (folder / f"results/tiny/tables/{table}.csv" for folder in (tree, ran))
        assert made.read_bytes() == original.read_bytes(), table
    assert "0 records restored, 6 were there already" in run(tree, "restore", "--scale", "tiny.yaml")
    assert "cell" not in planned(tree, *TINY_RUN)  # nor with the data there


def run(tree: Path, *words: str) -> str:
    """`python -m bench ...` in a tree; what it prints."""
    command = [sys.executable, "-m", "bench", *words]
    result = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_one_more_seed_runs_only_the_new_cells(edited):
    (edited / "tiny.yaml").write_text(yaml.safe_dump(tiny_with(seeds=[0, 1, 2])))
    assert planned(edited, *TINY_RUN) == FIGURES | TABLES | {"cell": 3}


EDITS = [
    ("bench/learn/train.py", "import math\n", "import math  # of course\n", {}),
    ("bench/learn/train.py", "net.train()", "net.train(True)", FIGURES | TABLES | {"cell": 6}),
    (
        "bench/strategies/margin.py",
        "ordered[:, 0]",
        "1 * ordered[:, 0]",
        FIGURES | TABLES | {"cell": 2},
    ),
    ("bench/nets/resnet18.py", "import", "import math\nimport", {}),
    ("bench/studies/lookahead/figures/thesis_2_2.py", "NAME =", "OTHER = 1\nNAME =", {"thesis-2.2": 1}),
    ("bench/report/stats.py", "import", "import math\nimport", FIGURES | TABLES),
]


@pytest.mark.parametrize(("file", "old", "new", "expected"), EDITS, ids=[f"{e[0]}-{len(e[3])}" for e in EDITS])
def test_an_edit_re_runs_what_it_touches(edited, file, old, new, expected):
    if old == "import":
        text = (edited / file).read_text()
        at = text.index("\nimport" if "\nimport" in text else "\nfrom")
        (edited / file).write_text(text[:at] + "\nimport math" + text[at:])
    else:
        replace(edited / file, old, new)
    assert planned(edited, *TINY_RUN) == expected


def test_a_recipe_change_re_runs_its_cells(edited):
    changed = tiny_with(recipes={"l2": TINY["lookahead"]["recipes"]["l2"] | {"epochs": 5}})
    (edited / "tiny.yaml").write_text(yaml.safe_dump(changed))
    assert planned(edited, *TINY_RUN)["cell"] == 6


NO_TORCH = """
import sys

class Absent:
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent)
\"\"\""""


def test_figures_from_committed_tables_need_neither_runs_nor_torch(ran, bare, tmp_path):
    tree = tmp_path / "clone"
    shutil.copytree(bare, tree)
    shutil.copytree(ran / "results/tiny/tables", tree / "results/tiny/tables")
    assert planned(tree, "figures", *TINY_RUN) == FIGURES
    replace(tree / "bench/__init__.py", '"""', NO_TORCH)
    snakemake(tree, "figures", "--cores", "1", *TINY_RUN)
    for name in FIGURES:
        drawn, original = (folder / f"figures/tiny/{name}.png" for folder in (tree, ran))
        assert drawn.read_bytes() == original.read_bytes()


def test_committed_tables_do_not_pass_for_a_reproduction(ran, bare, tmp_path):
    tree = tmp_path / "clone"
    shutil.copytree(bare, tree)
    for folder in ("results/tiny/tables", "figures/tiny"):
        shutil.copytree(ran / folder, tree / folder)
    assert planned(tree, *TINY_RUN)["cell"] == 6


def test_a_dataset_put_there_by_hand_is_never_deleted(bare, tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(bare, tree)
    root = tmp_path / "elsewhere"
    data.prepare("digits", root)
    before = (root / "digits.npz").read_bytes()
    (tree / "tiny.yaml").write_text(yaml.safe_dump(TINY | {"data": {"root": str(root)}}))
    replace(
        tree / "bench/datasets/digits.py",
        "    from sklearn.datasets",
        '    raise OSError("no network")\n    from sklearn.datasets',
    )
    snakemake(tree, str(root / "digits.npz"), "--force", "--cores", "1", *TINY_RUN, check=False)
    assert (root / "digits.npz").read_bytes() == before


def test_the_report_holds_every_figure_and_table_with_its_deviations(ran):
    snakemake(ran, *TINY_RUN, "--report", "report.html")
    text = (ran / "report.html").read_text()
    for name in (*FIGURES, *lookahead.TABLES, "claims"):
        assert name in text
    assert "width 8 (paper 640)" in text


def test_a_failed_cell_does_not_stop_the_others_and_status_names_it(edited):
    shutil.rmtree(edited / "results/tiny/runs")
    panel = TINY["lookahead"]["panels"]["thesis-2.2a"]
    wild = tiny_with(
        recipes={"l2": TINY["lookahead"]["recipes"]["l2"] | {"epochs": 1}, "wild": {"lr": 1e30, "epochs": 1}},
        panels={
            "thesis-2.2a": panel | {"strategies": ["random"]},
            "thesis-2.2b": panel | {"strategies": ["random"], "recipe": "wild"},
        },
    )
    (edited / "tiny.yaml").write_text(yaml.safe_dump(wild))
    output = snakemake(edited, "--cores", "2", *TINY_RUN, check=False)
    assert "fallback_lr" in output  # the failed job's log is shown
    assert len(list((edited / "results/tiny/runs").rglob("seed-?.json"))) == 2
    status = subprocess.run(
        [sys.executable, "-m", "bench", "status", "--scale", "tiny.yaml"], cwd=edited, capture_output=True, text=True
    ).stdout
    assert status.splitlines()[2].split() == ["lookahead", "2", "0", "2", "0"]
    assert "wild/random/seed-0: " in status


@pytest.mark.parametrize("profile", ["slurm", "cluster-generic"])
def test_cluster_profiles_are_found_and_ask_for_a_gpu(bare, profile):
    output = snakemake(bare, "lookahead_tables", "-n", "--workflow-profile", f"profiles/{profile}")
    assert f"Using workflow specific profile profiles/{profile}" in output
    run = output[output.index("rule cell") :]
    assert re.search(r"resources: .*gpu=1", run), run[:800]


def test_profiles_hold_nothing_that_the_slurm_plugin_refuses():
    refused = ("--gres", "--gpus", "--mem", "--time", "--partition", "--account", "--qos")
    settings = yaml.safe_load((REPO / "profiles/slurm/config.yaml").read_text())
    for resources in (settings["default-resources"], *settings["set-resources"].values()):
        assert not any(flag in str(resources.get("slurm_extra", "")) for flag in refused)
    assert "retries" in settings
    for path in (REPO / "workflow/rules").glob("*.smk"):
        for rule in re.split(r"^ *rule\b", path.read_text(), flags=re.MULTILINE)[1:]:
            assert "retries:" not in rule or "localrule: True" in rule, path
