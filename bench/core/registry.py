"""Components found by file: a strategy, net, dataset or figure is one module of its package.

A package is named by its path below `bench/`: `nets`, `studies/lookahead/figures`.

A component is named by a spec, `name` or `name+option=value+option=value`, for instance
`entropy+map=softmax` or `wrn+layers=2`. What a module offers is stated in literal constants at its top

    NAME      its name, where the file name with dashes for underscores will not do
    OPTIONS   {option: (default, alternative, ...)} for named choices, {option: 3} for any whole number >= 1

and read from the source text, so that naming, checking and listing components never imports torch.
Modules whose name starts with an underscore are helpers, not components.
"""

import ast
import difflib
import importlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from bench.core.errors import UserError

ROOT = Path(__file__).parent.parent  # bench/
SINGULAR = {
    "datasets": "dataset",
    "nets": "net",
    "strategies": "strategy",
    "figures": "figure",
    "measures": "measure",
    "experiments": "experiment",
}
Options = dict[str, str | int]


@dataclass(frozen=True)
class Component:
    name: str
    module: str  # dotted, importable
    summary: str  # first line of the docstring
    constants: dict  # every NAME = <literal> at module level


@cache
def components(package: str) -> dict[str, Component]:
    """All components of `bench/<package>/`, by name."""
    found = (_read(package, path) for path in sorted((ROOT / package).glob("*.py")) if path.name[0] != "_")
    return {component.name: component for component in found}


def _read(package: str, path: Path) -> Component:
    try:
        tree = ast.parse(path.read_text())
    except SyntaxError as error:
        raise UserError(
            f"bench/{package}/{path.name}, line {error.lineno}: {error.msg}; mend or remove the file"
        ) from None
    constants = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with suppress(ValueError):  # computed, so not a statement about the component
                constants[node.targets[0].id] = ast.literal_eval(node.value)
    name = constants.get("NAME", path.stem.replace("_", "-"))
    summary = (ast.get_docstring(tree) or "").partition("\n")[0]
    return Component(name, ".".join(["bench", *package.split("/"), path.stem]), summary, constants)


def parse(package: str, spec: str) -> tuple[Component, Options]:
    """The component a spec names and the value of every one of its options."""
    name, *settings = spec.split("+")
    known = components(package)
    if name not in known:
        raise UserError(unknown(SINGULAR[package.rpartition("/")[2]], name, known))
    offered = known[name].constants.get("OPTIONS", {})
    options = {key: value if isinstance(value, int) else value[0] for key, value in offered.items()}
    for setting in settings:
        key, _, text = setting.partition("=")
        if key not in offered:
            raise UserError(unknown(f"option of {name}", key, offered))
        options[key] = _value(f"{name}+{key}", offered[key], text)
    return known[name], options


def _value(where: str, offered: int | tuple[str, ...], text: str) -> str | int:
    if isinstance(offered, int):
        if not (text.isascii() and text.isdecimal()) or int(text) < 1:
            raise UserError(f"{where}: found {text!r}; allowed: a whole number >= 1")
        return int(text)
    if text not in offered:
        raise UserError(unknown(f"value of {where}", text, offered))
    return text


def canonical(package: str, spec: str) -> str:
    """The shortest spec of the same component: options in declared order, defaults left out."""
    component, options = parse(package, spec)
    defaults = parse(package, component.name)[1]
    return "+".join([component.name] + [f"{key}={value}" for key, value in options.items() if value != defaults[key]])


@cache
def problem(package: str, spec: str) -> str | None:
    """What is wrong with a spec, its spelling included, or None."""
    try:
        short = canonical(package, spec)
    except UserError as error:
        return str(error)
    return None if spec == short else f"found {spec!r}; write {short!r}"


def load(package: str, spec: str) -> tuple[ModuleType, Options]:
    """The imported module a spec names, and its options."""
    component, options = parse(package, spec)
    return importlib.import_module(component.module), options


def unknown(what: str, found: str, allowed: Iterable[str]) -> str:
    """`unknown strategy 'marign'; did you mean 'margin'? allowed: ...`"""
    allowed = list(allowed)
    near = difflib.get_close_matches(found, allowed, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown {what} {found!r}; {hint}allowed: {', '.join(allowed) or 'none'}"
