# The suite's table of contents. What runs where:
#
#   config/<scale>.yaml                          the grid (snakemake --config scale=quick|cpu|paper, or --configfile FILE)
#   <data root>/<dataset>.npz                    canonical images, prepared once
#   results/<scale>/runs/<study>/<cell>.json     one process, one record; <cell>.meta.json: times, machine, versions
#   results/<scale>/tables/<table>.csv           tidy tables, summaries, tests
#   figures/<scale>/<figure>.{png,pdf}           from tables alone; the target of a figure is its name
#   results/<scale>/{logs,benchmarks,resume}/    beside every record, same tail
#
# <cell> = {dataset}/{net}/width-{width}/{recipe}/{strategy}/seed-{seed}; bench/grid.py is the only place that knows.
from snakemake.utils import min_version

min_version("9.0")


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/lookahead.smk"
include: "workflow/rules/figures.smk"


rule all:
    default_target: True
    input:
        LOOKAHEAD_RECORDS,  # committed tables alone do not make a reproduction
        TABLES,
        FIGURES,


rule tables:
    input:
        TABLES,


rule figures:
    input:
        FIGURES,


rule lookahead:
    input:
        LOOKAHEAD_RECORDS,
        LOOKAHEAD_TABLES,
        LOOKAHEAD_FIGURES,
