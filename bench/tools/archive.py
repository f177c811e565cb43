"""Records that travel: the finished records of a scale in one small file per study, and back.

`results/<scale>/records/<study>.tar.xz` holds every finished record with its account, without logs and resume files.
The same records give the same bytes. Restored, they are where Snakemake looks for them, and it takes them as done;
tables can be made from them by anyone, without running.
"""

import io
import json
import lzma
import tarfile
from dataclasses import asdict
from pathlib import Path

from bench.core import paths, records, study
from bench.core.cell import Cell
from bench.core.errors import UserError
from bench.core.files import replacing

ANYONE = {"mode": 0o644, "uid": 0, "gid": 0, "uname": "", "gname": "", "mtime": 0}  # nothing of one machine
Pair = tuple[bytes, bytes]  # a record and its account, as bytes


def pack(config: dict) -> list[tuple[Path, int]]:
    """Write the archives of a scale; their paths and how many records each holds.

    What an earlier archive has and this machine has not stays in it.
    """
    packed = []
    for name in study.names():
        out = paths.archive_folder(config["scale"]) / f"{name}.tar.xz"
        found = (_read(out, name) if out.is_file() else {}) | _on_disk(name, config["scale"])
        if found:
            with replacing(out) as part:
                part.write_bytes(_packed(found))
            packed.append((out, len(found)))
    if not packed:
        raise UserError(f"scale {config['scale']!r} has no finished record below results/{config['scale']}/runs")
    return packed


def restore(config: dict) -> list[tuple[Path, int, int, int]]:
    """Put the records of a scale's archives in their places; (archive, restored, there already, outdated) of each.

    A record that is there already stays as it is. One made with other settings than the configuration has now is
    outdated, and not restored.
    """
    done = []
    for out in sorted(paths.archive_folder(config["scale"]).glob("*.tar.xz")):
        name = out.name.removesuffix(".tar.xz")
        if name not in study.names():
            raise UserError(f"{out}: there is no study {name!r}")
        room, counts = study.load(name), [0, 0, 0]
        wanted = {cell: records.fingerprint(room.settings(config, cell)) for cell in room.cells(config)}
        for cell, (record, account) in _read(out, name).items():
            target = paths.record_path(config["scale"], name, cell)
            old, other = target.is_file(), wanted.get(cell) not in (None, json.loads(record)["settings_hash"])
            counts[1 if old else 2 if other else 0] += 1
            if not old and not other:  # the account first: a record alone would be taken for a finished run
                for path, content in ((paths.meta_path(target), account), (target, record)):
                    with replacing(path) as part:
                        part.write_bytes(content)
        done.append((out, *counts))
    if not done:
        raise UserError(f"{paths.archive_folder(config['scale'])} holds no archive; type: python -m bench archive")
    return done


def _on_disk(name: str, scale: str) -> dict[Cell, Pair]:
    """The finished records of a study; a damaged one, or one in the place of another, is refused by name."""
    folder, room, found = Path(f"results/{scale}/runs/{name}"), study.load(name), {}
    for path in sorted(folder.rglob("*.json")):
        meta = paths.meta_path(path)
        if not path.name.endswith(".meta.json") and meta.is_file():
            cell = room.Cell.parse(str(path.relative_to(folder).with_suffix("")))
            checked(records.read(path, room.RECORD), cell, path)
            found[cell] = (path.read_bytes(), meta.read_bytes())
    return found


def checked(record: dict, cell: Cell, path: Path) -> dict:
    """The record, if it is that of the cell."""
    if record["cell"] != asdict(cell):
        raise UserError(f"{path}: the record is of another cell, {record['cell']}; remove it and run again")
    return record


def _packed(found: dict[Cell, Pair]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for cell in sorted(found):
            for suffix, content in zip((".json", ".meta.json"), found[cell], strict=True):
                entry = tarfile.TarInfo(f"{cell}{suffix}")
                entry.size = len(content)
                for key, value in ANYONE.items():
                    setattr(entry, key, value)
                archive.addfile(entry, io.BytesIO(content))
    return lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def _read(path: Path, name: str) -> dict[Cell, Pair]:
    """Every record of an archive, all of it checked before any of it is used."""
    room, contents = study.load(name), {}
    try:
        with tarfile.open(fileobj=io.BytesIO(lzma.decompress(path.read_bytes()))) as archive:
            for entry in archive:
                if not entry.isfile() or not entry.name.endswith(".json"):
                    raise UserError(f"{path}: {entry.name!r} is no record")
                contents[entry.name] = archive.extractfile(entry).read()
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise UserError(f"{path} is damaged ({error}); take it from git again") from None
    found = {}
    for entry, content in contents.items():
        if not entry.endswith(".meta.json"):
            cell = room.Cell.parse(entry.removesuffix(".json"))  # refuses any other name
            where = Path(f"{path}: {entry}")
            checked(records.valid(content, where, room.RECORD), cell, where)
            if f"{cell}.meta.json" not in contents:
                raise UserError(f"{where} comes without its account")
            found[cell] = (content, contents[f"{cell}.meta.json"])
    if len(contents) != 2 * len(found):
        raise UserError(f"{path}: holds accounts without a record")
    return found
