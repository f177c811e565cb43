"""From records to tables: the edge where files are read and written."""

import sys
from pathlib import Path

import pandas as pd

from bench.core import csv, paths, records, study
from bench.core.cell import Cell
from bench.core.errors import UserError
from bench.tools.archive import checked


def collect(names: list[str], config: dict, out: Path, partial: bool) -> list[Path]:
    """Write every table of some studies, after all of them are made; with `partial`, of those records that exist.

    Of several studies, one without any record keeps the tables it has.
    """
    made: dict[str, pd.DataFrame] = {}
    for name in names:
        frames = _frames(name, config, partial)
        if frames is None and len(names) > 1:
            print(f"{name}: no record yet, its tables are left as they are", file=sys.stderr)
        made |= frames or {}
    if not made:
        raise UserError(
            f"{', '.join(names)}: scale {config['scale']!r} has no record yet; python -m bench reproduce makes them"
        )
    return [_written(frame, out / f"{table}.csv") for table, frame in made.items()]


def _frames(name: str, config: dict, partial: bool) -> dict[str, pd.DataFrame] | None:
    """Every table of a study; None without any record."""
    room = study.load(name)
    expected = {paths.record_path(config["scale"], name, cell): cell for cell in room.cells(config)}
    found = [path for path in expected if path.is_file()]
    missing = [path for path in expected if not path.is_file()]
    if missing and not partial:
        raise UserError(
            f"{name}: {len(missing)} of {len(expected)} records are missing, first {missing[0]}; add --partial to go on"
        )
    if not found:
        return None
    if missing:
        listed = ", ".join(map(str, missing))
        print(f"{name}: {len(found)}/{len(expected)} cells; missing: {listed}", file=sys.stderr)
    runs = [_read(room, config, expected[path], path) for path in found]
    metas = [records.read_json(paths.meta_path(path)) for path in found]
    frames = study.part(name, "tables").tables(runs, metas, config)
    if wrong := set(frames) ^ set(room.TABLES):
        raise UserError(f"bench/studies/{name}: TABLES and what tables() gives differ in {', '.join(sorted(wrong))}")
    return frames


def _read(room, config: dict, cell: Cell, path: Path) -> dict:
    """A record that is of this cell, made with the settings that the configuration has for it."""
    record = checked(records.read(path, room.RECORD), cell, path)
    if record["settings_hash"] != records.fingerprint(room.settings(config, cell)):
        raise UserError(f"{path} was made with other settings than the configuration has; remove it and run again")
    return record


def merge_claims(folder: Path) -> Path:
    """Put the claims of all studies that have them into claims.csv."""
    found = [path for name in study.names() if (path := folder / f"{name}-claims.csv").is_file()]
    if not found:
        raise UserError(f"{folder} has no <study>-claims.csv; type: python -m bench collect --partial")
    return _written(pd.concat([csv.read(path) for path in found], ignore_index=True), folder / "claims.csv")


def _written(frame: pd.DataFrame, path: Path) -> Path:
    csv.write(frame, path)
    return path
