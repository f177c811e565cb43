"""Digests of code: a job re-runs when code it depends on changes in meaning, and only then.

The digest of a module covers the syntax trees (no comments, no layout, no docstrings) of the module and of every
`bench` module it imports, directly or not, packages included. Components are loaded by name and so are not followed
from the registry: a cell's digest names the study, and the nets, strategies and datasets it uses, and editing another
one leaves it alone. `EXEMPT` names the modules that a run imports and no digest covers, and why.
"""

import ast
import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from bench.core import study as studies
from bench.core.cell import Cell
from bench.core.registry import ROOT, parse

# What a run imports and its record does not depend on.
_IDENTITY = "what it decides is in the record's identity: the cell, its settings, its code"
_NAMES = {
    "bench.core.cell": _IDENTITY,
    "bench.core.config": _IDENTITY,
    "bench.core.digest": _IDENTITY,
    "bench.core.study": _IDENTITY,
}
EXEMPT = {
    "bench": "a version number",
    "bench.studies": "no code",
    "bench.core.errors": "what is said when nothing is recorded",
    "bench.core.progress": "what is said meanwhile",
    "bench.core.files": "how a file gets to its place",
    "bench.core.paths": "where a file has its place",
    "bench.core.locks": "who computes, not what",
    "bench.core.machine": "facts for the account beside a record",
    "bench.core.peak": "facts for the account beside a record",
    "bench.core.provenance": "facts for the account beside a record",
    "bench.learn.vision": "how torchvision is imported",
}


def exempt(module: str) -> bool:
    """Whether no record depends on a module. Of a study, `__init__` names cells and settings and computes nothing."""
    return module in EXEMPT or module in _NAMES or module.rpartition(".")[0] == "bench.studies"


def covered(*modules: str, exempt: Callable[[str], bool] = exempt) -> list[str]:
    """The modules (dotted names) that the digest of some covers."""
    seen: set[str] = set()
    todo = list(modules)
    while todo:
        module = todo.pop()
        if module not in seen and not exempt(module):
            seen.add(module)
            parent = module.rpartition(".")[0]
            todo += [*_scan(module)[1], *([parent] if parent else [])]
    return sorted(seen)


def of(*modules: str, files: Iterable[Path] = (), exempt: Callable[[str], bool] = exempt) -> str:
    """The digest of modules together with all they import from the suite, and of data files."""
    parts = [f"{module} {_scan(module)[0]}" for module in covered(*modules, exempt=exempt)]
    parts += [f"{path.name} {path.read_text()}" for path in sorted(files)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def modules_of_cell(study: str, cell: Cell) -> list[str]:
    """Where the code begins that can change the record of a cell."""
    used = studies.load(study).uses(cell)
    components = [parse(package, spec)[0].module for package, specs in used.items() for spec in specs]
    data = ["bench.learn.data"] if used.get("datasets") else []
    return [f"bench.studies.{study}.run", "bench.core.run", *data, *components]


def of_cell(study: str, cell: Cell) -> str:
    """The digest of all code that can change the record of a cell."""
    return of(*modules_of_cell(study, cell))


def of_tables(study: str) -> str:
    """The digest of all that makes a study's tables of records: code, claims, the papers' values and numbers."""
    rooms = (f"bench.studies.{study}", f"bench.studies.{study}.tables", f"bench.studies.{study}.claims")
    files = [*studies.folder(study).rglob("*.csv"), *ROOT.glob("*/schema.yaml"), studies.folder(study) / "schema.yaml"]
    return of(*rooms, "bench.report.claims", "bench.tools.collect", files=files, exempt=EXEMPT.__contains__)


@cache
def _scan(module: str) -> tuple[str, tuple[str, ...]]:
    """A module's own syntax tree as text, and the modules of the suite it imports."""
    tree = ast.parse(_file(module).read_text())
    imports = {name for node in ast.walk(tree) for name in _imported(node)}
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            body[0].value = ast.Constant("")  # docstrings are for people
    return ast.dump(tree), tuple(sorted(imports))


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    else:
        return []
    return [name for name in names if name.startswith("bench.") and _file(name) is not None]


def _file(module: str) -> Path | None:
    path = ROOT.parent.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
