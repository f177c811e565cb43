"""A scale's configuration: read, checked against the strict schema, completed with the papers' values.

`load("quick")` or `load("my/file.yaml")` returns the full configuration; a mistake is one line that names the file,
the key, what was found and what is allowed (UserError).
"""

import copy
import math
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jsonschema
import yaml

from bench import registry
from bench.cells import oversized
from bench.errors import UserError

ROOT = Path(__file__).parent.parent
SCHEMA = ROOT / "workflow/schemas/config.schema.yaml"


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


WORDS = {
    "array": "a list, such as [0]",
    "object": "keys with values",
    "integer": "a whole number",
    "number": "a number",
}


@cache
def schema() -> dict:
    return yaml.safe_load(SCHEMA.read_text())


def load(scale: str = "quick") -> dict:
    """The complete configuration of a scale, given its name (config/<name>.yaml) or a file."""
    path = Path(scale) if scale.endswith((".yaml", ".yml")) else ROOT / "config" / f"{scale}.yaml"
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
    config["data"]["root"] = os.path.normpath(os.path.expanduser(config["data"]["root"]))
    for where, problem in _inconsistencies(config):
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
    return schema()["$defs"][node["$ref"].removeprefix("#/$defs/")] | node


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
            return f"{prefix}{found}; allowed: letters, digits, dots, dashes and underscores"
        case "minItems" | "minProperties" | "minLength":
            return f"{prefix}{found}; allowed: at least {error.validator_value} entry"
        case "uniqueItems":
            return f"{prefix}{found}; allowed: no entry twice"
    return f"{prefix}{error.message}"


def _inconsistencies(config: dict) -> Iterator[tuple[str, str]]:
    """Names that do not exist and sizes that cannot be, which no schema can express."""
    datasets = registry.components("datasets")
    for section in ("data.average_pool", "lookahead.protocol"):
        first, second = section.split(".")
        for name in config[first][second]:
            if name not in datasets:
                yield section, registry.unknown("dataset", name, datasets)
    for name, factor in config["data"]["average_pool"].items():
        if factor > min(datasets[name].constants["SHAPE"][1:]):
            yield (
                f"data.average_pool.{name}",
                f"found {factor}; its images have {datasets[name].constants['SHAPE']} pixels",
            )
    for panel, setting in config["lookahead"]["panels"].items():
        where = f"lookahead.panels.{panel}"
        if setting["dataset"] not in datasets:
            yield f"{where}.dataset", registry.unknown("dataset", setting["dataset"], datasets)
        for key, package, specs in (
            ("net", "nets", [setting["net"]]),
            ("strategies", "strategies", setting["strategies"]),
        ):
            for spec in specs:
                try:
                    canonical = registry.canonical(package, spec)
                except UserError as error:
                    yield f"{where}.{key}", str(error)
                else:
                    if canonical != spec:
                        yield f"{where}.{key}", f"found {spec!r}; its one spelling is {canonical!r}"
        if setting["dataset"] not in config["lookahead"]["protocol"]:
            yield f"{where}.dataset", f"lookahead.protocol has no entry for {setting['dataset']!r}; add one"
        try:
            protocol = settings(config, setting["dataset"], setting["recipe"])["protocol"]
        except UserError as error:
            yield f"{where}.recipe", str(error)
        if problem := oversized(protocol, datasets[setting["dataset"]].constants["SIZES"][0]):
            yield f"lookahead.protocol.{setting['dataset']}", problem


def settings(config: dict, dataset: str, spec: str) -> dict:
    """All that decides a record besides the cell itself: equal for every strategy and seed of one setting.

    `spec` names a recipe and what departs from it: `l2+lr=0.3`, `l2-augment+view=augmented`. Keys are those of a
    recipe, then of a protocol, then `statistics`, in the schema's order; a spec has one spelling.
    """
    name, *changes = spec.split("+")
    if name not in config["recipes"]:
        raise UserError(registry.unknown("recipe", name, config["recipes"]))
    found = {
        "average_pool": config["data"]["average_pool"].get(dataset, 1),
        "statistics": config["data"]["statistics"],
        "recipe": dict(config["recipes"][name]),
        "protocol": dict(config["lookahead"]["protocol"][dataset]),
    }
    kinds = schema()["$defs"]
    parts = ((found["recipe"], kinds["recipe"]), (found["protocol"], kinds["protocol"]))
    parts += ((found, {"properties": {"statistics": schema()["properties"]["data"]["properties"]["statistics"]}}),)
    allowed = {key: (part, node) for part, kind in parts for key, node in kind["properties"].items()}
    departures = {}
    for change in changes:
        key, _, text = change.partition("=")
        if key not in allowed:
            raise UserError(registry.unknown(f"key after {name!r}", key, allowed))
        part, node = allowed[key]
        value = yaml.safe_load(text)
        if error := next(_Validator(node).iter_errors(value), None):
            raise UserError(f"{spec}: {key}: {_say(error)}")
        if value != part[key]:
            departures[key] = f"{value:g}" if isinstance(value, float) else text
        part[key] = value
    one = "+".join([name, *(f"{key}={departures[key]}" for key in allowed if key in departures)])
    if spec != one:
        raise UserError(f"found {spec!r}; its one spelling is {one!r}")
    return found
