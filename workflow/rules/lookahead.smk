# Thesis chapter 2: one job per cell, then every table of the study at once.
LOOKAHEAD_RECORDS = [str(grid.record_path(SCALE, "lookahead", cell)) for cell in CELLS]
LOOKAHEAD_TABLES = [f"results/{SCALE}/tables/{name}.csv" for name in grid.TABLES]


rule lookahead_run:
    input:
        f"{ROOT}/{{dataset}}.npz",
    output:
        record=f"results/{SCALE}/runs/lookahead/{PATTERN}.json",
        meta=f"results/{SCALE}/runs/lookahead/{PATTERN}.meta.json",
    log:
        f"results/{SCALE}/logs/lookahead/{PATTERN}.log",
    benchmark:
        f"results/{SCALE}/benchmarks/lookahead/{PATTERN}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * 4 ** (attempt - 1),  # kernels of the papers' sizes need more
        runtime=720,
    params:
        settings=cell_settings,
        code=cell_code,
        scale=SCALE,
        root=subpath(input[0], parent=True),
    shell:
        "python -m bench run lookahead --scale {params.scale} --dataset {wildcards.dataset} --net {wildcards.net}"
        " --width {wildcards.width} --recipe {wildcards.recipe} --strategy {wildcards.strategy}"
        " --seed {wildcards.seed} --settings {params.settings:q} --root {params.root:q} --threads {threads}"
        " --out {output.record:q} >> {log:q} 2>&1"


rule lookahead_tables:
    input:
        LOOKAHEAD_RECORDS,
    output:
        [
            report(
                f"results/{SCALE}/tables/{name}.csv",
                caption="../report/table.rst",
                category="Tables",
                labels={"table": name, "scale": SCALE},
            )
            for name in grid.TABLES
        ],
    log:
        f"results/{SCALE}/logs/lookahead/tables.log",
    benchmark:
        f"results/{SCALE}/benchmarks/lookahead/tables.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        mem_mb=2000,
    params:
        settings=json.dumps(grid.collection(config), sort_keys=True),
        code=digest.of("bench.collect", "bench.tables", "bench.published"),
        folder=subpath(output[0], parent=True),
    shell:
        "python -m bench collect --settings {params.settings:q} --out {params.folder:q} >> {log:q} 2>&1"
