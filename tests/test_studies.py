"""Every study keeps the contract of `bench.core.study`, and the rooms of the house are where the plan says."""

import ast
import json
import re
import subprocess
import sys

import jsonschema
import pytest
from conftest import REPO

from bench.core import config as configuration
from bench.core import csv, registry, study
from bench.core.cell import WORD

STUDIES = study.names()
SCALES = sorted(path.stem for path in (REPO / "config").glob("*.yaml"))
# Who may import whom: only from rooms further down.
ROOMS = ("core", "learn", "datasets", "nets", "kernels", "report", "strategies", "studies", "tools")


@pytest.mark.parametrize("name", STUDIES)
class TestContract:
    def test_its_init_needs_neither_torch_nor_pandas(self, name):
        code = f"import sys, bench.studies.{name}; sys.exit(bool({{'torch', 'pandas'}} & set(sys.modules)))"
        assert subprocess.run([sys.executable, "-c", code], cwd=REPO).returncode == 0

    @pytest.mark.parametrize("scale", SCALES)
    def test_its_cells_are_paths_with_settings(self, name, scale):
        room, config = study.load(name), configuration.load(scale)
        cells = room.cells(config)
        assert cells == sorted(set(cells))
        for cell in cells[:50]:
            assert room.Cell.parse(str(cell)) == cell
            assert re.fullmatch(f"{WORD}(/{WORD})*/seed-[0-9]+", str(cell))
            settings = room.settings(config, cell)
            assert json.loads(json.dumps(settings)) == settings
            for package, specs in room.uses(cell).items():
                assert all(registry.problem(package, spec) is None for spec in specs)

    @pytest.mark.parametrize("scale", SCALES)
    def test_a_section_is_all_that_cells_and_tables_need(self, name, scale):
        room, config = study.load(name), configuration.load(scale)
        section = json.loads(json.dumps(study.section(config, name)))
        assert room.cells(section) == room.cells(config)
        assert room.departures(section) == room.departures(config)

    def test_scale_paper_departs_only_where_it_says(self, name):
        for departure in study.load(name).departures(configuration.load("paper")):
            assert not departure.paper  # no value of the paper's is replaced
            assert departure.what

    def test_its_record_schema_is_one(self, name):
        jsonschema.Draft202012Validator.check_schema(study.load(name).RECORD)

    def test_its_claims_are_stated_in_full(self, name):
        claims = csv.read(study.folder(name) / "claims.csv")
        assert {"claim", "where", "statement", "published", "quantity", "holds_above", "holds_below", "source"} <= set(
            claims.columns
        )
        assert claims["claim"].is_unique
        for column in ("claim", "where", "statement", "quantity", "source"):
            assert (claims[column] != "").all(), column
        assert (claims["holds_above"].notna() | claims["holds_below"].notna()).all()
        assert f"{name}-claims" in study.load(name).TABLES

    def test_its_figures_are_drawn_from_its_tables(self, name):
        assert study.figures(name)
        for figure in study.figures(name).values():
            assert set(figure.constants["TABLES"]) <= set(study.load(name).TABLES)
            assert figure.constants["TITLE"]

    def test_its_section_is_documented(self, name):
        node = configuration.schema()["properties"][name]
        assert node["description"]
        parts = node["properties"].get("experiments", node)["properties"]  # of the study, or of each of its experiments
        assert "seeds" in parts or all("seeds" in part["properties"] for part in parts.values())


def test_no_two_studies_make_the_same_table_or_figure():
    tables = [table for name in STUDIES for table in study.load(name).TABLES]
    figures = [figure for name in STUDIES for figure in study.figures(name)]
    assert len(tables) == len(set(tables))
    assert len(figures) == len(set(figures))


def imports(path) -> set[str]:
    """What a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import, which no digest sees"
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


MODULES = sorted((REPO / "bench").rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(REPO)))
def test_imports_go_down_only(path):
    parts = path.relative_to(REPO / "bench").parts
    assert not any(name.split(".")[0] == "snakemake" for name in imports(path))
    if len(parts) == 1:  # the command line is above all
        return
    assert not {"bench.kernels.gram", "bench.kernels.regress"} & imports(path), "for users; digests follow modules"
    rank = ROOMS.index(parts[0])
    for name in imports(path):
        room = name.split(".")[1:2]
        if name.startswith("bench.") and room[0] in ROOMS:
            assert ROOMS.index(room[0]) <= rank, name
            if parts[0] == room[0] == "studies" and len(name.split(".")) > 2:
                assert name.split(".")[2] == parts[1], f"{name}: a study imports another"


@pytest.mark.parametrize("room", ["core", "learn", "report", "tools"])
def test_no_room_but_its_own_names_a_study(room):
    """Comments and words for people aside: perf measures look-ahead's scores, which is a kernel's work."""
    for path in (REPO / "bench" / room).rglob("*.py"):
        if "perf" in path.parts:
            continue
        tree = ast.parse(path.read_text())
        docstrings = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, DOCUMENTED)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in docstrings:
                assert not any(name in node.value for name in STUDIES), (path.name, node.value)


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def test_the_workflow_names_no_study_and_no_torch():
    for path in [REPO / "Snakefile", *(REPO / "workflow/rules").glob("*.smk")]:
        text = path.read_text()
        assert not re.search(r"^\s*(from|import) torch", text, re.MULTILINE)
        assert not any(name in text for name in STUDIES), path.name
