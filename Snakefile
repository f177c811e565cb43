# The suite's table of contents. What runs where:
#
#   config/<scale>.yaml                          the grid (snakemake --config scale=quick|cpu|paper, or --configfile FILE)
#   <data root>/<dataset>.npz                    canonical images, prepared once
#   results/<scale>/runs/<study>/<cell>.json     one cell, one record; <cell>.meta.json: times, machine, versions
#   results/<scale>/tables/<table>.csv           tidy tables, summaries, tests; <study>-claims.csv, claims.csv over all
#   figures/<scale>/<figure>.{png,pdf}           from tables alone; the target of a figure is its name
#   results/<scale>/{logs,benchmarks,resume}/    beside every record, same tail
#
# <study> is a folder of bench/studies/; its Cell says what <cell> looks like. bench/core/paths.py is the map.
from snakemake.utils import min_version

min_version("9.0")


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/cells.smk"
include: "workflow/rules/figures.smk"


rule all:
    default_target: True
    input:
        RECORDS.values(),  # committed tables alone do not make a reproduction
        TABLES.values(),
        LEDGER,
        FIGURES.values(),


rule tables:
    input:
        TABLES.values(),
        LEDGER,


rule figures:
    input:
        FIGURES.values(),


for name in STUDIES:

    rule:
        name:
            name
        input:
            RECORDS[name],
            TABLES[name],
            FIGURES[name],
