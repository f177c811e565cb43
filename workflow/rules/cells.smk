# One job per cell of any study; then the tables of each study at once; then the claims of all.
rule cell:
    input:
        ancient(cell_data),  # a record names the checksum of its data
        cell_inputs,
    output:
        record=f"results/{SCALE}/runs/{{study}}/{{cell}}.json",
        meta=f"results/{SCALE}/runs/{{study}}/{{cell}}.meta.json",
    log:
        f"results/{SCALE}/logs/{{study}}/{{cell}}.log",
    benchmark:
        f"results/{SCALE}/benchmarks/{{study}}/{{cell}}.tsv"
    conda:
        "../../environment.yml"
    threads: cell_threads
    resources:
        mem_mb=cell_memory,
        runtime=720,
    params:
        settings=cell_settings,
        code=cell_code,
        scale=SCALE,
        root=ROOT,
    shell:
        "python -m bench run {wildcards.study:q} {wildcards.cell:q} --scale {params.scale:q}"
        " --settings {params.settings:q} --root={params.root:q} --threads {threads} --out {output.record:q}"
        " >> {log:q} 2>&1"


# One of several jobs that do the work of a large cell, before the cell itself.
rule stage:
    input:
        ancient(cell_data),
        stage_inputs,
    output:
        temp(touch(stage_mark("{study}", "{cell}", "{stage}"))),
    log:
        f"results/{SCALE}/logs/{{study}}/{{cell}}/{{stage}}.log",
    benchmark:
        f"results/{SCALE}/benchmarks/{{study}}/{{cell}}/{{stage}}.tsv"
    conda:
        "../../environment.yml"
    threads: cell_threads
    resources:
        mem_mb=cell_memory,
        runtime=720,
    params:
        settings=cell_settings,
        code=cell_code,
        record=lambda wildcards: paths.record_path(SCALE, wildcards.study, wildcards.cell),
        scale=SCALE,
        root=ROOT,
    shell:
        "python -m bench run {wildcards.study:q} {wildcards.cell:q} --stage {wildcards.stage:q}"
        " --scale {params.scale:q} --settings {params.settings:q} --root={params.root:q} --threads {threads}"
        " --out {params.record:q} >> {log:q} 2>&1"


for name in STUDIES:

    rule:
        name:
            f"{name}_tables"
        input:
            RECORDS[name],
        output:
            [
                report(
                    table,
                    caption="../report/table.rst",
                    category="Tables",
                    subcategory=name,
                    labels={"table": Path(table).stem, "scale": SCALE},
                )
                for table in TABLES[name]
            ],
        log:
            f"results/{SCALE}/logs/{name}/tables.log",
        benchmark:
            f"results/{SCALE}/benchmarks/{name}/tables.tsv"
        localrule: True
        conda:
            "../../environment.yml"
        resources:
            mem_mb=2000,
        params:
            study=name,
            settings=json.dumps(study.section(config, name)),  # in the order of the file, as departures are listed
            code=digest.of_tables(name),
            folder=subpath(output[0], parent=True),
        shell:
            "python -m bench collect {params.study:q} --settings {params.settings:q} --out {params.folder:q}"
            " >> {log:q} 2>&1"


rule claims:
    input:
        [f"{paths.tables_folder(SCALE)}/{name}-claims.csv" for name in STUDIES],
    output:
        report(LEDGER, caption="../report/table.rst", category="Tables", labels={"table": "claims", "scale": SCALE}),
    log:
        f"results/{SCALE}/logs/claims.log",
    benchmark:
        f"results/{SCALE}/benchmarks/claims.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        mem_mb=1000,
    params:
        code=digest.of("bench.tools.collect"),
        folder=subpath(output[0], parent=True),
    shell:
        "python -m bench claims --out {params.folder:q} >> {log:q} 2>&1"
