"""Files are whole or absent, and a damaged one names itself."""

import json
import math
import os

import pytest

from bench.core import records
from bench.core.errors import UserError


def test_json_is_sorted_and_exact(tmp_path):
    path = tmp_path / "deep/er/x.json"
    value = {"b": 0.1 + 0.2, "a": [1e-300, 5]}
    records.write_json(path, value)
    assert path.read_text().index('"a"') < path.read_text().index('"b"')
    assert records.read_json(path) == value


def test_nan_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        records.write_json(tmp_path / "x.json", {"a": math.nan})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    records.write_json(path, {"old": 1})

    def full(*words):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        records.write_json(path, {"new": 1})
    assert records.read_json(path) == {"old": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": 1}', json.dumps({"schema": 99})])
def test_damaged_records_name_themselves(tmp_path, content):
    path = tmp_path / "seed-3.json"
    path.write_text(content)
    with pytest.raises(UserError, match=r"seed-3\.json.*remove it and run again"):
        records.read(path)
