"""Archives of records: same bytes from same records, and nothing but records comes out."""

import io
import tarfile
from pathlib import Path

import pytest

from bench.core import paths, records
from bench.core.errors import UserError
from bench.studies import lookahead
from bench.studies.lookahead import Cell
from bench.tools.archive import pack, restore

CELL = Cell("digits", "wrn", 8, "l2", "random", 0)
FOUND = {"cycles": [], "initial": [], "learning_rate": 1.0, "diverged": None, "parameters": 3, "only_timed": False}
COMMON = {"schema": records.VERSION, "study": "lookahead", "scale": "t", "cell": vars(CELL), "settings": {}}
CYCLE = dict.fromkeys(lookahead.RECORD["properties"]["cycles"]["items"]["required"])
RECORD = COMMON | FOUND | {"settings_hash": "x", "data": None, "device": "cpu", "cycles": [CYCLE]}


@pytest.fixture
def record(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = paths.record_path("t", "lookahead", CELL)
    records.write_json(path, RECORD)
    records.write_json(paths.meta_path(path), {"identity": "x"})
    return path


def archive() -> Path:
    return paths.archive_folder("t") / "lookahead.tar.xz"


def test_there_and_back(record):
    before = record.read_bytes(), paths.meta_path(record).read_bytes()
    assert pack("t") == [(archive(), 1)]
    record.unlink()
    paths.meta_path(record).unlink()
    assert restore("t") == [(archive(), 1, 0)]
    assert (record.read_bytes(), paths.meta_path(record).read_bytes()) == before


def test_what_is_there_stays(record):
    pack("t")
    record.write_text("newer")
    assert restore("t") == [(archive(), 0, 1)]
    assert record.read_text() == "newer"


def test_only_finished_records_are_packed(record):
    paths.meta_path(record).unlink()
    with pytest.raises(UserError, match="no finished record"):
        pack("t")


def test_a_damaged_record_is_named_not_packed(record):
    records.write_json(record, RECORD | {"cycles": []})
    with pytest.raises(UserError, match=r"seed-0\.json: not a run record"):
        pack("t")


@pytest.mark.parametrize("name", ["../evil.json", "/tmp/evil.json", "digits/wrn/width-8/l2/random/seed-0.py", "x.json"])
def test_nothing_but_records_comes_out(name, record, tmp_path):
    archive().parent.mkdir(parents=True)
    with tarfile.open(archive(), "w:xz") as file:
        entry = tarfile.TarInfo(name)
        entry.size = 2
        file.addfile(entry, io.BytesIO(b"{}"))
    before = set(tmp_path.parent.rglob("*"))
    with pytest.raises(UserError):
        restore("t")
    assert set(tmp_path.parent.rglob("*")) == before


def test_a_link_is_no_record(record):
    archive().parent.mkdir(parents=True)
    with tarfile.open(archive(), "w:xz") as file:
        entry = tarfile.TarInfo(f"{CELL}.json".replace("seed-0", "seed-1"))
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        file.addfile(entry)
    with pytest.raises(UserError, match="is no record"):
        restore("t")


def test_a_damaged_archive_says_so(record):
    pack("t")
    archive().write_bytes(archive().read_bytes()[:-40])
    record.unlink()
    with pytest.raises(UserError, match="is damaged"):
        restore("t")


def test_nothing_to_restore_says_what_to_type(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="python -m bench archive"):
        restore("t")
