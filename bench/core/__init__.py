"""What every study stands on: names, cells, paths, records, locks, one run. It knows no study.

Snakemake imports from here, so importing it never imports torch; `device`, `journal`, `provenance`, `run` and `seeds`
do, and are imported only where something runs.
"""
