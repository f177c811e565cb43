"""A scale's configuration: read, checked against the strict schema, completed with the papers' values.

`load("quick")` or `load("my/file.yaml")` returns the full configuration; a mistake is one line that names the file,
the key, what was found and what is allowed (UserError). The schema is composed: `core/schema.yaml`, definitions that
other rooms share (`learn/schema.yaml`), and one section per study (`studies/<name>/schema.yaml`).
"""

import copy
import json
import math
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jsonschema
import yaml

from bench.core import registry, study
from bench.core.errors import UserError

ROOT = registry.ROOT.parent


# Strict where JSON Schema is not: 8.0 is no whole number here, and NaN and infinity are no numbers.
_KINDS = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
    {
        "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),
        "number": lambda _, value: (
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        ),
    }
)
_Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=_KINDS)


REF = "#/$defs/"
WORDS = {
    "array": "a list, such as [0]",
    "object": "keys with values",
    "integer": "a whole number",
    "number": "a number",
}


@cache
def schema() -> dict:
    """The whole schema. A study's own `$defs` become `<study>.<name>`, so that no two studies can meet."""
    whole = yaml.safe_load((registry.ROOT / "core/schema.yaml").read_text())
    for path in sorted(registry.ROOT.glob("*/schema.yaml")):
        whole["$defs"] |= yaml.safe_load(path.read_text())["$defs"]
    for name in study.names():
        section = yaml.safe_load((study.folder(name) / "schema.yaml").read_text())
        own = section.pop("$defs", {})
        whole["properties"][name] = _renamed(section, name, own)
        whole["$defs"] |= {f"{name}.{key}": _renamed(node, name, own) for key, node in own.items()}
    return whole


def _renamed(node: object, name: str, own: dict) -> object:
    """A part of a study's schema whose references to its own definitions say whose they are."""
    if isinstance(node, list):
        return [_renamed(each, name, own) for each in node]
    if not isinstance(node, dict):
        return node
    node = {key: _renamed(value, name, own) for key, value in node.items()}
    target = str(node.get("$ref", "")).removeprefix(REF)
    return node | {"$ref": f"{REF}{name}.{target}"} if target in own else node


def load(scale: str = "quick") -> dict:
    """The complete configuration of a scale, given its name (config/<name>.yaml) or a file."""
    own = scale.endswith((".yaml", ".yml"))
    path = Path(scale) if own else ROOT / "config" / f"{scale}.yaml"
    if own and not path.is_file():
        raise UserError(f"{scale}: no such file")
    if not path.is_file():
        names = [file.stem for file in (ROOT / "config").glob("*.yaml")]
        raise UserError(
            registry.unknown("scale (config/<scale>.yaml, or a path ending in .yaml)", scale, sorted(names))
        )
    try:
        raw = yaml.safe_load(path.read_text())
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text file ({error.reason} at byte {error.start})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UserError(f"{path}{where}: not valid YAML: {getattr(error, 'problem', error)}") from None
    config = check(raw, str(path))
    if path.stem != config["scale"] and path.parent == ROOT / "config":
        raise UserError(f"{path}: scale: found {config['scale']!r}; a file of config/ is named after its scale")
    return config


def choose(given: dict, files: list[str]) -> dict:
    """The configuration Snakemake's command line asks for.

    Nothing, or `--config scale=NAME`, means config/<scale>.yaml; `--configfile FILE` means that file and only that.
    """
    if set(given) <= {"scale"} and not files:
        return load(str(given.get("scale", "quick")))
    source = ", ".join(files) or "--config"
    config = check(given, source)
    shipped = ROOT / "config" / f"{config['scale']}.yaml"
    if shipped.is_file() and config != load(config["scale"]):
        raise UserError(f"{source}: scale: found {config['scale']!r}, the name of {shipped.name}; give yours another")
    return config


def check(raw: object, source: str) -> dict:
    """Validate `raw` and fill in every default; `source` names it in messages."""
    errors = sorted(_Validator(schema()).iter_errors(raw), key=lambda e: (len(e.path), list(map(str, e.path))))
    if errors:
        raise UserError(f"{source}: {_say(errors[0])}")
    config = complete(schema(), raw)
    config.setdefault("studies", [name for name in study.names() if name in raw] or list(study.names()))
    config["data"]["root"] = os.path.normpath(os.path.expanduser(config["data"]["root"]))
    for where, problem in _mistakes(config):
        raise UserError(f"{source}: {where}: {problem}")
    return config


def complete(node: dict, value: object) -> object:
    """Fill absent keys from the schema: a fixed-key object merges with its default, anything else replaces it."""
    node = resolve(node)
    if not isinstance(value, dict):
        return value
    named = node.get("properties", {})
    if named:
        value = {**node.get("default", {}), **value}
        value |= {
            key: copy.deepcopy(resolve(child)["default"])
            for key, child in named.items()
            if key not in value and "default" in resolve(child)
        }
    others = node.get("additionalProperties") or {}
    return {key: complete(named.get(key, others), entry) for key, entry in value.items()}


def resolve(node: dict) -> dict:
    """A schema node with its `$ref` into `$defs` followed; keys beside the reference win."""
    if "$ref" not in node:
        return node
    return schema()["$defs"][node["$ref"].removeprefix(REF)] | node


def _say(error: jsonschema.ValidationError) -> str:
    where = ".".join(map(str, error.path))
    prefix = f"{where}: " if where else ""
    found = f"found {error.instance!r}"
    match error.validator:
        case "additionalProperties":
            allowed = sorted(error.schema.get("properties", {}))
            extra = next(key for key in error.instance if key not in allowed)
            return prefix + registry.unknown("key", str(extra), allowed)
        case "required":
            missing = next(key for key in error.validator_value if key not in error.instance)
            return f"{prefix}the key {missing!r} is missing"
        case "enum":
            return prefix + registry.unknown("value", str(error.instance), map(str, error.validator_value))
        case "type":
            kinds = error.validator_value if isinstance(error.validator_value, list) else [error.validator_value]
            return f"{prefix}{found}; allowed: {' or '.join(WORDS.get(kind, kind) for kind in kinds)}"
        case "minimum" | "exclusiveMinimum" | "exclusiveMaximum":
            sign = {"minimum": ">=", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}[error.validator]
            return f"{prefix}{found}; allowed: a number {sign} {error.validator_value}"
        case "pattern":
            words = "letters, digits, dots, dashes and underscores" if "A-Z" in error.validator_value else "no braces"
            return f"{prefix}{found}; allowed: {words}"
        case "minItems" | "minProperties" | "minLength":
            return f"{prefix}{found}; allowed: at least {error.validator_value} entry"
        case "uniqueItems":
            return f"{prefix}{found}; allowed: no entry twice"
    return f"{prefix}{error.message}"


def _mistakes(config: dict) -> Iterator[tuple[str, str]]:
    """Names that do not exist and sizes that cannot be, which no schema can express."""
    for name in config["studies"]:
        if name not in study.names():
            yield "studies", registry.unknown("study", name, study.names())
            continue
        room = study.load(name)
        yield from room.problems(config)
        for cell in room.cells(config):
            for package, specs in room.uses(cell).items():
                for problem in filter(None, (registry.problem(package, spec) for spec in specs)):
                    yield f"{name}, cell {cell}", problem


def vary(spec: str, parts: list[tuple[dict, dict]]) -> None:
    """Apply what stands behind the name in `l2+lr=0.3`, in place, to the first part that has the key.

    A part is (values, the schema's properties of them). A spec has one spelling: keys in the schema's order, values
    that differ from what they replace, each written in one way (`0.3`, not `0.30` or `.3 #`).
    """
    name, *changes = spec.split("+")
    allowed = {key: (values, node) for values, properties in reversed(parts) for key, node in properties.items()}
    order = list(dict.fromkeys(key for _, properties in parts for key in properties))
    said = {}
    for change in changes:
        key, _, text = change.partition("=")
        if key not in allowed:
            raise UserError(registry.unknown(f"key after {name!r}", key, order))
        values, node = allowed[key]
        value = _value(node, text)
        if error := next(_Validator(node).iter_errors(value), None):
            raise UserError(f"{spec!r}: {key}: {_say(error)}")
        if value != values[key]:
            said[key] = _text(value)
        values[key] = value
    one = "+".join([name, *(f"{key}={said[key]}" for key in order if key in said)])
    if spec != one:
        raise UserError(f"found {spec!r}; write {one!r}")


def _value(node: dict, text: str) -> object:
    """What a text says in place of a value of this kind; a text that says none is handed on, and refused."""
    words = {"true": True, "false": False, "null": None}
    if "enum" in node:
        return text
    if text in words:
        return words[text]
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,3})?", text):
        return float(text)
    return text


def _text(value: object) -> str:
    """The one way to write a value in a spec."""
    if isinstance(value, float):
        short = f"{value:g}" if float(f"{value:g}") == value else repr(value)
        return re.sub(r"e\+?(-?)0*", r"e\1", short)  # 1e-5, 1e6: a plus would begin the next key
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else json.dumps(value)
