"""Digests of code: a job re-runs when code it depends on changes in meaning, and only then.

The digest of a module covers the syntax trees (no comments, no layout, no docstrings) of the module and of every
`bench` module it imports, directly or not. Components are loaded by name and so are not followed from the registry:
a cell's digest names the study, the strategy, the net and the dataset it uses, and editing another one leaves it alone.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path

from bench.registry import ROOT, parse

SILENT = {"bench.errors", "bench.progress", "bench.vision"}  # no number depends on what is said or how it is imported


def of(*modules: str) -> str:
    """The digest of modules (dotted names) together with all they import from the suite."""
    seen = set(SILENT)
    todo = list(modules)
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            todo += _scan(module)[1]
    text = "\n".join(f"{module} {_scan(module)[0]}" for module in sorted(seen - SILENT))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def of_cell(study: str, dataset: str, net: str, strategy: str) -> str:
    """The digest of all code that can change the record of a cell."""
    named = (("datasets", dataset), ("nets", net), ("strategies", strategy))
    return of(
        f"bench.studies.{study}",
        "bench.device",
        "bench.records",
        *(parse(package, spec)[0].module for package, spec in named),
    )


@cache
def _scan(module: str) -> tuple[str, tuple[str, ...]]:
    """A module's own syntax tree (and, of a package, its data) as text, and the modules of the suite it imports."""
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
    beside = sorted(_file(module).parent.glob("*.csv")) if _file(module).name == "__init__.py" else []
    return ast.dump(tree) + "".join(path.read_text() for path in beside), tuple(sorted(imports))


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
