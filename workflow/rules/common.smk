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
STUDIES = {name: study.load(name) for name in config["studies"]}
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
    stage="[a-z0-9-]+",


@cache
def of_cell(name, text):
    """The cell of that path, what it is made of (settings as JSON), the files it reads, and a digest of its code."""
    room = STUDIES[name]
    cell = room.Cell.parse(text)
    settings = json.dumps(room.settings(config, cell), sort_keys=True)
    used = [f"{ROOT}/{dataset}.npz" for dataset in room.uses(cell).get("datasets", [])]
    others = room.inputs(config, cell) if hasattr(room, "inputs") else []
    stages = room.stages(config, cell) if hasattr(room, "stages") else []
    needs = room.needs(cell, json.loads(settings)) if hasattr(room, "needs") else {}
    found = {"settings": settings, "data": used, "others": others, "stages": stages, "code": digest.of_cell(name, cell)}
    return found | {"threads": needs.get("threads", 1), "mem_mb": needs.get("mem_mb", 8000)}


def cell_data(wildcards):
    """Images, and records of other cells; what is in them follows from the settings and the code of the cell itself."""
    found = of_cell(wildcards.study, wildcards.cell)
    return found["data"] + found["others"]


def cell_inputs(wildcards):
    """The marks of the last stage."""
    return marks(wildcards, len(of_cell(wildcards.study, wildcards.cell)["stages"]) - 1)


def stage_inputs(wildcards):
    """The marks of the stage before."""
    stages = of_cell(wildcards.study, wildcards.cell)["stages"]
    return marks(wildcards, next(k for k, names in enumerate(stages) if wildcards.stage in names) - 1)


def marks(wildcards, k):
    """What tells that the jobs of a cell's k-th stage are done."""
    stages = of_cell(wildcards.study, wildcards.cell)["stages"]
    return [stage_mark(wildcards.study, wildcards.cell, name) for name in stages[k]] if k >= 0 else []


def stage_mark(study, cell, stage):
    return f"results/{SCALE}/stages/{study}/{cell}/{stage}.done"


def cell_threads(wildcards):
    return of_cell(wildcards.study, wildcards.cell)["threads"]


def cell_memory(wildcards, attempt):
    """What the study says that a cell needs, and twice as much in every further attempt."""
    return of_cell(wildcards.study, wildcards.cell)["mem_mb"] * 2 ** (attempt - 1)


def cell_settings(wildcards):
    """Everything but the cell's name that decides its record, as JSON: the exact params trigger."""
    return of_cell(wildcards.study, wildcards.cell)["settings"]


def cell_code(wildcards):
    """Digest of the code a cell runs: editing a comment, a figure or another strategy leaves it unchanged."""
    return of_cell(wildcards.study, wildcards.cell)["code"]
