"""Run records: what was found (same cell, same bytes) and, in a sibling, how (times, host, versions)."""

import hashlib
import json
from pathlib import Path

import jsonschema

from bench.core.errors import UserError
from bench.core.files import replacing

VERSION = 2

# What every record says of itself, besides what its study found.
COMMON = {
    "type": "object",
    "required": ["schema", "study", "scale", "cell", "settings", "settings_hash", "data", "device"],
    "properties": {
        "schema": {"const": VERSION},
        "cell": {"type": "object", "required": ["seed"]},
        "data": {"type": ["object", "null"], "required": ["name", "train", "test", "partial", "checksum"]},
    },
}


def fingerprint(value: dict) -> str:
    """A short hash of settings, the same wherever they were written down."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def write_json(path: Path, value: dict) -> None:
    """Write a record whole or not at all; the same value gives the same bytes."""
    text = json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n"
    with replacing(path) as part:
        part.write_text(text)


def read_json(path: Path) -> dict:
    try:
        return _parsed(path.read_bytes(), path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); remove it and run again") from None


def read(path: Path, *schemas: dict) -> dict:
    """A run record, valid for `COMMON` and for the schemas of its study."""
    return _valid(read_json(path), path, *schemas)


def valid(content: bytes, where: Path, *schemas: dict) -> dict:
    """The same from bytes; `where` names them in messages."""
    return _valid(_parsed(content, where), where, *schemas)


def _parsed(content: bytes, where: Path) -> dict:
    try:
        return json.loads(content)
    except ValueError as error:
        raise UserError(f"{where}: cannot be read as JSON ({error}); remove it and run again") from None


def _valid(record: dict, where: Path, *schemas: dict) -> dict:
    for schema in (COMMON, *schemas):
        try:
            jsonschema.validate(record, schema)
        except jsonschema.ValidationError as error:
            place = "/".join(map(str, error.path)) or "top level"
            why = f"{place}: {error.message[:120]}"
            raise UserError(f"{where}: not a run record ({why}); remove it and run again") from None
    return record
