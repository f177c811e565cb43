rule data:
    output:
        update(f"{ROOT}/{{dataset}}.npz"),  # never deleted: it may be the user's only copy
    log:
        f"results/{SCALE}/logs/data/{{dataset}}.log",
    benchmark:
        f"results/{SCALE}/benchmarks/data/{{dataset}}.tsv"
    retries: 2  # a download
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        mem_mb=4000,
    params:
        root=subpath(output[0], parent=True),
    shell:
        "python -m bench data {wildcards.dataset:q} --root={params.root:q} >> {log:q} 2>&1"
