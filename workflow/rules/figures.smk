# One rule per figure of bench/studies/<study>/figures/, named after it: `make figure FIG=thesis-2.2`. From tables alone.
for name in STUDIES:
    for figure in study.figures(name).values():

        rule:
            name:
                figure.name
            input:
                [f"{paths.tables_folder(SCALE)}/{table}.csv" for table in figure.constants["TABLES"]],
            output:
                report(
                    f"{paths.figure_stem(SCALE, figure.name)}.png",
                    caption="../report/figure.rst",
                    category="Figures",
                    subcategory=name,
                    labels={"figure": figure.name, "shows": figure.constants["TITLE"]},
                ),
                f"{paths.figure_stem(SCALE, figure.name)}.pdf",
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
                code=digest.of(figure.module, "bench.report.figure"),
                stem=subpath(output[0], strip_suffix=".png"),
                folder=subpath(input[0], parent=True),
                summary=figure.summary,
                study=name,
            shell:
                "python -m bench figure {params.name:q} --tables {params.folder:q} --out {params.stem:q} >> {log:q} 2>&1"
