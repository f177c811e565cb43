"""Records that travel: the finished records of a scale in one small file per study, and back.

`results/<scale>/records/<study>.tar.xz` holds every finished record with its account, without logs and resume files.
The same records give the same bytes. Restored, they are where Snakemake looks for them, with times that make it take
them as done; tables can be made from them by anyone, without running.
"""

import io
import lzma
import tarfile
from pathlib import Path, PurePosixPath

from bench.core import paths, records, study
from bench.core.errors import UserError
from bench.core.files import replacing

WHOLE = {"mode": 0o644, "uid": 0, "gid": 0, "uname": "", "gname": "", "mtime": 0}  # nothing of one machine


def pack(scale: str) -> list[tuple[Path, int]]:
    """Write the archives of a scale; their paths and how many records each holds."""
    packed = []
    for name in study.names():
        folder = Path(f"results/{scale}/runs/{name}")
        found = sorted(path for path in folder.rglob("*.json") if not path.name.endswith(".meta.json"))
        found = [path for path in found if paths.meta_path(path).is_file()]
        if found:
            packed.append((_packed(name, folder, found, paths.archive_folder(scale) / f"{name}.tar.xz"), len(found)))
    if not packed:
        raise UserError(f"scale {scale!r} has no finished record below results/{scale}/runs")
    return packed


def _packed(name: str, folder: Path, found: list[Path], out: Path) -> Path:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in found:
            records.read(path, study.load(name).RECORD)  # a damaged one is named, not packed
            for each in (path, paths.meta_path(path)):
                entry = tarfile.TarInfo(str(PurePosixPath(each.relative_to(folder))))
                content = each.read_bytes()
                entry.size = len(content)
                for key, value in WHOLE.items():
                    setattr(entry, key, value)
                archive.addfile(entry, io.BytesIO(content))
    with replacing(out) as part:
        part.write_bytes(lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    return out


def restore(scale: str) -> list[tuple[Path, int, int]]:
    """Put the records of a scale's archives in their places; (archive, restored, there already) of each.

    A record that is there already stays as it is.
    """
    done = []
    for path in sorted(paths.archive_folder(scale).glob("*.tar.xz")):
        name = path.name.removesuffix(".tar.xz")
        if name not in study.names():
            raise UserError(f"{path}: there is no study {name!r}")
        done.append((path, *_restored(path, name, Path(f"results/{scale}/runs/{name}"))))
    if not done:
        raise UserError(f"{paths.archive_folder(scale)} holds no archive; `python -m bench archive` makes them")
    return done


def _restored(path: Path, name: str, folder: Path) -> tuple[int, int]:
    cell, new, old = study.load(name).Cell, 0, 0
    try:
        whole = io.BytesIO(lzma.decompress(path.read_bytes()))  # checked to its end before anything is written
        with tarfile.open(fileobj=whole) as archive:
            for entry in archive:
                stem = entry.name.removesuffix(".json").removesuffix(".meta")
                cell.parse(stem)  # refuses any other name, so nothing is written elsewhere
                target = folder / entry.name
                if not entry.isfile() or target.suffix != ".json":
                    raise UserError(f"{path}: {entry.name!r} is no record")
                if target.is_file():
                    old += 1
                    continue
                with replacing(target) as part:
                    part.write_bytes(archive.extractfile(entry).read())
                new += 1
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise UserError(f"{path} is damaged ({error}); take it from git again") from None
    return new // 2, old // 2
