"""Run records: what was found (same cell, same bytes) and, in a sibling, how (times, host, versions)."""

import json
from pathlib import Path

import jsonschema

from bench.errors import UserError
from bench.files import replacing

VERSION = 1

_CYCLE = {
    "type": "object",
    "required": [
        "cycle",
        "labelled",
        "test_accuracy",
        "test_loss",
        "train_accuracy",
        "train_loss",
        "candidates",
        "queried",
        "notes",
    ],
}
SCHEMA = {
    "type": "object",
    "required": ["schema", "study", "scale", "cell", "settings", "settings_hash", "data", "device", "cycles"],
    "properties": {
        "schema": {"const": VERSION},
        "cell": {"type": "object", "required": ["dataset", "net", "width", "recipe", "strategy", "seed"]},
        "data": {"type": "object", "required": ["name", "train", "test", "partial", "average_pool", "checksum"]},
        "cycles": {"type": "array", "items": _CYCLE, "minItems": 1},
    },
}


def write_json(path: Path, value: dict) -> None:
    """Write a record whole or not at all; the same value gives the same bytes."""
    text = json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n"
    with replacing(path) as part:
        part.write_text(text)


def read_json(path: Path) -> dict:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as JSON ({error}); remove it and run again") from None


def read(path: Path) -> dict:
    """A validated run record."""
    record = read_json(path)
    try:
        jsonschema.validate(record, SCHEMA)
    except jsonschema.ValidationError as error:
        where = "/".join(map(str, error.path)) or "top level"
        raise UserError(f"{path}: not a run record ({where}: {error.message[:120]}); remove it and run again") from None
    return record
