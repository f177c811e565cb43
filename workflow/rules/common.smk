# The configuration, and what it asks for. Nothing here imports torch or pandas.
import json
import sys
from functools import cache

sys.path.insert(0, workflow.basedir)

from bench.core import config as configuration
from bench.core import digest, paths, study
from bench.core.cell import WORD
from bench.core.errors import UserError

try:
    config.update(configuration.choose(config, [str(path) for path in workflow.configfiles]))
except UserError as error:
    sys.exit(f"{error}")

SCALE = config["scale"]
ROOT = config["data"]["root"]
STUDIES = {name: study.load(name) for name in study.names()}
RECORDS = {
    name: [str(paths.record_path(SCALE, name, cell)) for cell in room.cells(config)] for name, room in STUDIES.items()
}
TABLES = {
    name: [f"{paths.tables_folder(SCALE)}/{table}.csv" for table in room.TABLES] for name, room in STUDIES.items()
}
LEDGER = f"{paths.tables_folder(SCALE)}/claims.csv"
FIGURES = {
    name: [f"{paths.figure_stem(SCALE, figure)}.{kind}" for figure in study.figures(name) for kind in ("png", "pdf")]
    for name in STUDIES
}
config["departures"] = {name: study.texts(room.departures(config)) for name, room in STUDIES.items()}  # for captions


wildcard_constraints:
    study="|".join(STUDIES),
    cell=f"{WORD}(/{WORD})*/seed-[0-9]+",
    dataset=WORD,


@cache
def of_cell(name, text):
    """The cell of that path, what it is made of (settings as JSON), the files it reads, and a digest of its code."""
    room = STUDIES[name]
    cell = room.Cell.parse(text)
    settings = json.dumps(room.settings(config, cell), sort_keys=True)
    used = [f"{ROOT}/{dataset}.npz" for dataset in room.uses(cell).get("datasets", [])]
    others = list(room.inputs(cell)) if hasattr(room, "inputs") else []
    return {"settings": settings, "data": used, "others": others, "code": digest.of_cell(name, cell)}


def cell_data(wildcards):
    return of_cell(wildcards.study, wildcards.cell)["data"]


def cell_inputs(wildcards):
    return of_cell(wildcards.study, wildcards.cell)["others"]


def cell_settings(wildcards):
    """Everything but the cell's name that decides its record, as JSON: the exact params trigger."""
    return of_cell(wildcards.study, wildcards.cell)["settings"]


def cell_code(wildcards):
    """Digest of the code a cell runs: editing a comment, a figure or another strategy leaves it unchanged."""
    return of_cell(wildcards.study, wildcards.cell)["code"]
