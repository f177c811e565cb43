"""Archives of records: same bytes from same records, and nothing but records comes out."""

import io
import json
import tarfile
from pathlib import Path

import pytest
from conftest import TINY

from bench.core import paths, records
from bench.core.config import check
from bench.core.errors import UserError
from bench.studies import lookahead
from bench.studies.lookahead import Cell
from bench.tools.archive import pack, restore
from bench.tools.collect import collect

CONFIG = check(TINY, "tests")
CELL, OTHER = lookahead.cells(CONFIG)[:2]
FOUND = {"cycles": [], "initial": [], "learning_rate": 1.0, "diverged": None, "parameters": 3, "only_timed": False}
CYCLE = dict.fromkeys(lookahead.RECORD["properties"]["cycles"]["items"]["required"])
ARCHIVE = paths.archive_folder("tiny") / "lookahead.tar.xz"


def record_of(cell: Cell) -> dict:
    settings = lookahead.settings(CONFIG, cell)
    common = {"schema": records.VERSION, "study": "lookahead", "scale": "tiny", "cell": vars(cell), "data": None}
    common |= {"settings": settings, "settings_hash": records.fingerprint(settings), "device": "cpu"}
    return common | FOUND | {"cycles": [CYCLE]}


def put(cell: Cell, place: Cell | None = None, **changes) -> Path:
    path = paths.record_path("tiny", "lookahead", place or cell)
    records.write_json(path, record_of(cell) | changes)
    records.write_json(paths.meta_path(path), {"identity": str(cell)})
    return path


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.json")}


@pytest.fixture
def record(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return put(CELL)


def test_there_and_back(record):
    before = files(Path("results"))
    assert pack(CONFIG) == [(ARCHIVE, 1)]
    for path in before:
        path.unlink()
    assert restore(CONFIG) == [(ARCHIVE, 1, 0, 0)]
    assert files(Path("results")) == before


def test_what_is_there_stays(record):
    pack(CONFIG)
    record.write_text("newer")
    assert restore(CONFIG) == [(ARCHIVE, 0, 1, 0)]
    assert record.read_text() == "newer"


def test_a_foreign_account_does_not_stay_beside_a_restored_record(record):
    """As a run leaves it that is killed between writing the two."""
    pack(CONFIG)
    record.unlink()
    paths.meta_path(record).write_text('{"identity": "foreign"}')
    assert restore(CONFIG) == [(ARCHIVE, 1, 0, 0)]
    assert json.loads(paths.meta_path(record).read_text())["identity"] == str(CELL)


def test_an_archive_keeps_what_this_machine_has_not(record):
    pack(CONFIG)
    record.unlink()
    put(OTHER)
    assert pack(CONFIG) == [(ARCHIVE, 2)]
    assert restore(CONFIG) == [(ARCHIVE, 1, 1, 0)]


def test_records_of_other_settings_are_not_restored(record):
    pack(CONFIG)
    record.unlink()
    recipes = TINY["lookahead"]["recipes"] | {"l2": TINY["lookahead"]["recipes"]["l2"] | {"epochs": 77}}
    changed = check(TINY | {"lookahead": TINY["lookahead"] | {"recipes": recipes}}, "tests")
    assert restore(changed) == [(ARCHIVE, 0, 0, 1)]
    assert not record.exists()
    put(CELL)
    with pytest.raises(UserError, match="other settings than the configuration has"):
        collect(["lookahead"], changed, Path("tables"), partial=True)


def test_only_finished_records_are_packed(record):
    paths.meta_path(record).unlink()
    with pytest.raises(UserError, match="no finished record"):
        pack(CONFIG)


def test_a_damaged_record_is_named_not_packed(record):
    put(CELL, cycles=[])
    with pytest.raises(UserError, match=r"seed-0\.json: not a run record"):
        pack(CONFIG)


def test_a_record_in_the_place_of_another_is_refused(record):
    put(CELL, place=OTHER)
    with pytest.raises(UserError, match="the record is of another cell"):
        pack(CONFIG)
    with pytest.raises(UserError, match="the record is of another cell"):
        collect(["lookahead"], CONFIG, Path("tables"), partial=True)


def archive_of(**entries: bytes) -> None:
    ARCHIVE.parent.mkdir(parents=True)
    with tarfile.open(ARCHIVE, "w:xz") as file:
        for name, content in entries.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))


RECORD = json.dumps(record_of(OTHER)).encode()


@pytest.mark.parametrize(
    "entries",
    [
        {"../evil.json": b"{}"},
        {"/tmp/evil.json": b"{}"},
        {"x.json": b"{}"},
        {f"{OTHER}.py": b"{}"},
        {f"{OTHER}.json": b"{}", f"{OTHER}.meta.json": b"{}"},  # no record
        {f"{OTHER}.json": RECORD},  # no account
        {f"{OTHER}.meta.json": b"{}"},  # no record
        {f"{OTHER}.json": RECORD, f"{OTHER}.meta.json": b"{}", "../evil.json": b"{}"},  # a bad one last
        {f"{CELL}.json": RECORD, f"{CELL}.meta.json": b"{}"},  # another cell's
    ],
    ids=str,
)
def test_nothing_but_records_comes_out(entries, record, tmp_path):
    archive_of(**entries)
    before = set(tmp_path.parent.rglob("*"))
    with pytest.raises(UserError):
        restore(CONFIG)
    assert set(tmp_path.parent.rglob("*")) == before


def test_a_link_is_no_record(record):
    ARCHIVE.parent.mkdir(parents=True)
    with tarfile.open(ARCHIVE, "w:xz") as file:
        entry = tarfile.TarInfo(f"{OTHER}.json")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        file.addfile(entry)
    with pytest.raises(UserError, match="is no record"):
        restore(CONFIG)


def test_a_damaged_archive_says_so(record):
    pack(CONFIG)
    ARCHIVE.write_bytes(ARCHIVE.read_bytes()[:-40])
    with pytest.raises(UserError, match="is damaged"):
        restore(CONFIG)


def test_nothing_to_restore_says_what_to_type(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="python -m bench archive"):
        restore(CONFIG)
