"""From records to tables, and from tables to pictures: the edges where files are read and written."""

import sys
from pathlib import Path

import pandas as pd

from bench import grid, records, registry
from bench.errors import UserError


def collect(settings: dict, out: Path, partial: bool) -> None:
    """Write every table of the look-ahead study; with `partial`, of those records that exist."""
    from bench import published, tables, times
    from bench.choices import choices
    from bench.claims import claims

    expected = grid.cells(settings["panels"], settings["seeds"])
    paths = {cell: grid.record_path(settings["scale"], "lookahead", cell) for cell in expected}
    missing = [path for path in paths.values() if not path.is_file()]
    if missing and not partial:
        raise UserError(
            f"{len(missing)} of {len(paths)} records are missing, first {missing[0]}; add --partial to go on"
        )
    if len(missing) == len(paths):
        raise UserError(f"no record of scale {settings['scale']!r} exists yet; `snakemake --cores all` makes them")
    if missing:
        print(
            f"{len(paths) - len(missing)}/{len(paths)} cells; missing: " + ", ".join(map(str, missing)), file=sys.stderr
        )
    found = [path for path in paths.values() if path.is_file()]
    runs = [records.read(path) for path in found]
    metas = [records.read_json(grid.meta_path(path)) for path in found]
    curves = tables.curves(runs)
    panels, deviations = settings["panels"], settings["deviations"]
    queries, claimed = times.queries(runs, metas), published.read("thesis-claims")
    tests = tables.tests(curves, panels)
    frames = {
        "lookahead-curves": curves,
        "lookahead-summary": tables.summary(curves, panels, deviations),
        "lookahead-areas": tables.areas(curves, panels),
        "lookahead-tests": tests,
        "lookahead-ranks": tables.ranks(curves, panels),
        "lookahead-costs": tables.costs(runs, metas),
        "lookahead-times": times.times(queries, claimed),
        "lookahead-times-per-cycle": times.per_cycle(queries, panels),
        "lookahead-choices": choices(curves, published.read("thesis-choices")),
        "lookahead-claims": claims(curves, queries, panels, claimed, deviations),
        "thesis-2.1": tables.thesis_2_1(tests, published.read("thesis-2.1")),
    }
    for name, frame in frames.items():
        tables.write(frame, out / f"{name}.csv")


def draw(name: str, folder: Path, stem: Path) -> None:
    """Draw a figure from the tables in `folder` to <stem>.png and <stem>.pdf."""
    from bench import figures

    needed = registry.components("figures")[name].constants["TABLES"]
    paths = {table: folder / f"{table}.csv" for table in needed}
    for path in paths.values():
        if not path.is_file():
            raise UserError(f"{path} is missing; `python -m bench collect --partial` makes it from finished cells")
    figures.save(figures.draw(name, {table: pd.read_csv(path) for table, path in paths.items()}), stem)
