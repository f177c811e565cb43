# One rule per figure of bench/figures/, named after it: `snakemake --cores 1 thesis-2.2`. From tables alone.
TABLES = LOOKAHEAD_TABLES
FIGURES = figure_files(registry.components("figures").values())
LOOKAHEAD_FIGURES = figure_files(
    figure for figure in registry.components("figures").values() if set(figure.constants["TABLES"]) <= set(grid.TABLES)
)

for figure in registry.components("figures").values():

    rule:
        name:
            figure.name
        input:
            [f"results/{SCALE}/tables/{table}.csv" for table in figure.constants["TABLES"]],
        output:
            report(
                f"figures/{SCALE}/{figure.name}.png",
                caption="../report/figure.rst",
                category="Figures",
                labels={"figure": figure.name, "shows": figure.constants["TITLE"]},
            ),
            f"figures/{SCALE}/{figure.name}.pdf",
        log:
            f"results/{SCALE}/logs/figures/{figure.name}.log",
        benchmark:
            f"results/{SCALE}/benchmarks/figures/{figure.name}.tsv"
        localrule: True
        conda:
            "../../environment.yml"
        resources:
            mem_mb=1000,
        params:
            name=figure.name,
            code=digest.of(figure.module, "bench.figures"),
            scale=SCALE,
            summary=figure.summary,
            panels=shown_panels(figure),
        shell:
            "python -m bench figure {params.name} --scale {params.scale} >> {log:q} 2>&1"
