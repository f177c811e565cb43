"""The documents that repeat what the code knows: config/README.md whole, and the marked blocks of README.md.

`python -m bench docs` rewrites both; a test fails when they are out of step. A block of README.md starts at
`<!-- begin NAME -->` and ends at `<!-- end NAME -->`; each NAME is a function below.
"""

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from bench import published
from bench.core import config, registry
from bench.core import paths as grid
from bench.perf.report import kernel_bars, kernel_elsewhere, kernel_profiles, kernel_speed, titles
from bench.report.style import departures

MANUAL = config.ROOT / "config/README.md"
README = config.ROOT / "README.md"


def write() -> None:
    MANUAL.write_text(manual())
    README.write_text(filled(README.read_text()))


def manual() -> str:
    """The key-by-key manual of the configuration, from the schema."""
    head = (
        "# Configuration, key by key\n\n"
        "One file is one scale: `quick.yaml` (the default), `cpu.yaml` (real data on a CPU), `paper.yaml` (the\n"
        "papers' values). Choose with `snakemake --cores all --config scale=cpu`, or bring your own with\n"
        "`--configfile`.\n"
        "A file states only what departs from the defaults below, which are the papers' values or, where these are\n"
        "silent, choices that are said to be ours. Devices, threads and memory are not configured here but on the\n"
        "command line and in `profiles/`.\n\n"
        "Written by `python -m bench docs` from `workflow/schemas/config.schema.yaml`.\n\n"
        "| key | default | meaning |\n| --- | --- | --- |\n"
    )
    return head + "".join(f"| `{key}` | {default} | {text} |\n" for key, default, text in _keys(config.schema()))


def _keys(node: dict, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """(key, default, description) of every key; objects of one shape are described once, under <name>."""
    node = config.resolve(node)
    others = node.get("additionalProperties") or None
    for name, child in node.get("properties", {}).items():
        child, key = config.resolve(child), f"{prefix}{name}"
        inner = "properties" in child or isinstance(child.get("additionalProperties"), dict)
        yield key, _default(name, child, inner), _meaning(child)
        if inner and not others:
            yield from _keys(child, f"{key}.")
    if isinstance(others, dict):
        yield from _keys(others, f"{prefix}<name>.")


def _default(name: str, node: dict, inner: bool) -> str:
    if "default" not in node:
        return "required"
    if name == "panels":
        return "every panel of the thesis' figures of look-ahead active learning"
    if inner and not node["default"]:
        return "" if "properties" in node else "`{}`"
    return f"`{json.dumps(node['default'])}`"


def _meaning(node: dict) -> str:
    allowed = f" One of {', '.join(f'`{value}`' for value in node['enum'])}." if "enum" in node else ""
    return " ".join(node["description"].split()).replace("|", "\\|") + allowed


def filled(text: str) -> str:
    """README.md with every marked block written anew."""

    def block(match: re.Match) -> str:
        name = match[1]
        try:
            text = BLOCKS[name]()
        except FileNotFoundError as error:
            text = f"(from `{Path(error.filename).relative_to(config.ROOT)}`, which has not been made yet)"
        return f"<!-- begin {name} -->\n{text}\n<!-- end {name} -->"

    return re.sub(r"<!-- begin ([a-z-]+) -->\n.*?<!-- end \1 -->", block, text, flags=re.DOTALL)


def figure_map() -> str:
    """Figure -> what it shows -> target -> tables -> module."""
    lines = ["| figure | shows | command | from tables | drawn by |", "| --- | --- | --- | --- | --- |"]
    for name, figure in registry.components("figures").items():
        tables = ", ".join(f"`{table}.csv`" for table in figure.constants["TABLES"])
        path = figure.module.replace(".", "/") + ".py"
        lines.append(f"| {name} | {figure.constants['TITLE']} | `snakemake --cores all {name}` | {tables} | `{path}` |")
    return "\n".join(lines)


def component_list(package: str, extra: str = "") -> str:
    """Every component of a package with its options; `extra` names a further constant to show."""
    lines = []
    for component in registry.components(package).values():
        options = component.constants.get("OPTIONS", {})
        shown = [f"`{key}`: {_choices(values)}" for key, values in options.items()]
        summary = component.summary.removeprefix(f"{component.name}: ").rstrip(".")
        more = f" Width: {component.constants[extra]}." if extra else ""
        lines.append(f"- `{component.name}`: {summary}.{more}" + (f" Options: {'; '.join(shown)}." if shown else ""))
    return "\n".join(lines)


def _choices(values: int | tuple) -> str:
    return (
        f"any number (default {values})" if isinstance(values, int) else " or ".join(f"`{value}`" for value in values)
    )


def cpu_results() -> str:
    """Accuracies at scale cpu, a row per setting and strategy, from the committed tables."""
    areas, summary = _cpu("lookahead-areas"), _cpu("lookahead-summary")
    keys = ["dataset", "net", "width", "recipe", "strategy"]
    rows = areas.drop_duplicates(keys)
    rows = rows.assign(size=rows.groupby("dataset")["strategy"].transform("size"))  # the dataset with most rows first
    rows = rows.sort_values(["size", "dataset", "area_mean"], ascending=[False, True, False])
    head = ("dataset", "net", "width", "recipe", "strategy", "accuracy over the curve (%)", "minus baseline (points)")
    lines = titles(*head, "baseline", "final accuracy (%)", "seeds")
    for row in rows.itertuples():
        mine = summary[(summary[keys] == [getattr(row, key) for key in keys]).all(axis=1)]
        last = mine.loc[mine.cycle.idxmax()]
        lines.append(
            f"| {_dataset(row)} | {row.net} | {row.width} | {row.recipe} | `{row.strategy}` "
            f"| {_interval(row.area_mean, row.area_low, row.area_high)} "
            f"| {_interval(row.difference_mean, row.difference_low, row.difference_high)} | `{row.baseline}` "
            f"| {_interval(last.accuracy_mean, last.accuracy_low, last.accuracy_high)} "
            f"| {row.n}{_diverged(row.diverged)} |"
        )
    deviations = {name: rows["deviations"].iloc[0] for name, rows in summary.groupby("panel", sort=False)}
    data = "; ".join(summary["data"].unique())
    costs = _cpu("lookahead-costs")
    hours = (costs["n"] * costs["total_seconds"]).sum() / 3600
    note = f"Brackets: 95% t-intervals over seeds. These runs took {hours:.1f} hours of one core."
    return "\n".join([*lines, "", note, "", f"Data: {data}. {departures(deviations)}"])


def cpu_claims() -> str:
    """The thesis' claims that scale cpu puts to the test, and the rest by name."""
    claims = _cpu("lookahead-claims")
    lines = titles("figure", "claim of the thesis", "published", "measured", "verdict")
    for row in claims[claims["n"] > 0].itertuples():
        value = (row.measured, row.measured_low, row.measured_high)
        shown = _ratio(*value) if row.quantity == "time" else _interval(*value)
        unit = {"time": " times", "cycle": " %"}.get(row.quantity.partition("-")[0], " points")
        sign = "over" if row.quantity == "time" else "minus"
        arms = f"`{row.a}`" + (f" {sign} `{row.b}`" if isinstance(row.b, str) else "")
        if isinstance(row.rivals, str):
            arms += f", the best of {', '.join(f'`{name}`' for name in row.rivals.split())}"
        marks = (" (extrapolated)" if row.extrapolated else "") + _diverged(row.diverged)
        where = f", {row.panel.removeprefix('thesis-')}" if (claims["claim"] == row.claim).sum() > 1 else ""
        lines.append(
            f"| {row.figure} | {row.statement} ({arms}{where}) | {row.published} | {shown}{unit}{marks} "
            f"| **{row.verdict}** |"
        )
    runs = claims.groupby("claim", sort=False)["n"].max()
    lines += ["", *_plainly(claims[claims["n"] > 0])]
    return "\n".join([*lines, f"- Not measured at this scale, by id: {', '.join(runs.index[runs == 0])}."])


def _plainly(claims: pd.DataFrame) -> list[str]:
    """The claims by verdict, in words."""
    lines = []
    for verdict in ("supported", "not supported", "inconclusive", "not comparable"):
        found = claims[claims["verdict"] == verdict]
        statements = (found["statement"] + " (" + found["figure"] + ")").drop_duplicates()
        lines.append(f"- {verdict.capitalize()}: {'; '.join(statements) or 'none'}.")
    return lines


def cpu_tests() -> str:
    """Table 2.1 of the thesis beside the same tests at scale cpu."""
    lines = titles("test", "p, thesis", "p, blocks = cycles", "verdict", "p, blocks = seeds", "verdict")
    for row in _cpu("thesis-2.1").itertuples():
        pair = f": `{row.strategy_a}` and `{row.strategy_b}`" if isinstance(row.strategy_a, str) else ""
        cycles, seeds = (f"{p:.2g}" if pd.notna(p) else "" for p in (row.p_cycles, row.p_seeds))
        measured = f"{cycles} | {row.verdict} | {seeds} | {row.verdict_seeds}"
        lines.append(f"| {row.test}{pair} | {row.p_published:g} | {measured} |")
    return "\n".join(lines)


def cpu_choices() -> str:
    """What the thesis and its released code do differently, and what it changes at scale cpu."""
    choices = _cpu("lookahead-choices")
    if choices.empty:
        return "No choice has finished runs of both its arms at this scale."
    lines = titles("choice", "thesis", "released code", "seen in", "code minus thesis, over the curve (points)", "p")
    for row in choices.itertuples():
        shown = _interval(row.area_mean, row.area_low, row.area_high) + _diverged(row.diverged)
        rest = [f"`{value}`" for value in (row.net, row.recipe, row.strategy) if isinstance(value, str)]
        where = ", ".join([_dataset(row), *rest, f"width {row.width}"])
        lines.append(f"| {row.choice} | `{row.thesis}` | `{row.code}` | {where} | {shown} | {row.area_p:.2g} |")
    absent = [name for name in published.read("thesis-choices")["choice"] if name not in set(choices["choice"])]
    return "\n".join([*lines, "", f"Not measured at this scale: {', '.join(absent) or 'none'}."])


def cpu_figures() -> str:
    """The thesis' figures at scale cpu that were drawn and show something: fig. 2.1b, and links to all."""
    panels = _cpu("lookahead-summary")["panel"].unique()
    paths = {}
    for name, figure in registry.components("figures").items():
        path, shown = f"figures/cpu/{name}.png", figure.constants.get("PANELS", ())
        if (config.ROOT / path).is_file() and any(fnmatch(panel, pattern) for panel in panels for pattern in shown):
            paths[name] = path
    lines = [f"![look-ahead by four models on MNIST]({paths['thesis-2.1b']})", ""] if "thesis-2.1b" in paths else []
    return "\n".join(
        [*lines, f"Figures: {', '.join(f'[{name}]({path})' for name, path in paths.items()) or 'none yet'}."]
    )


def _dataset(row: NamedTuple) -> str:
    return row.dataset + (" (partial)" if ", partial" in row.data else "")


def _diverged(count: int) -> str:
    return f" ({count} diverged)" if count else ""


def _cpu(table: str) -> pd.DataFrame:
    return pd.read_csv(config.ROOT / f"results/cpu/tables/{table}.csv")


def _ratio(mean: float, low: float, high: float) -> str:
    return f"{mean:.3g}" if pd.isna(low) else f"{mean:.3g} [{low:.3g}, {high:.3g}]"


def _interval(mean: float, low: float, high: float) -> str:
    mean, low, high = (round(100 * value, 1) + 0.0 for value in (mean, low, high))  # + 0.0: no minus zero
    return f"{mean:.1f}" if pd.isna(low) or low == high else f"{mean:.1f} [{low:.1f}, {high:.1f}]"


def lookahead_speed() -> str:
    """Scoring all candidates: the posterior form beside its alternatives, from results/perf/."""
    everything = pd.read_csv(config.ROOT / "results/perf/lookahead.csv")
    rows = everything[everything.group.isin(("contenders", "badge"))]
    base = rows.iloc[0]
    lines = titles(f"L = {base.labelled}, U = {base.candidates}, O = {base.outputs}, float64", "seconds", "how")
    for row in rows.itertuples():
        how = "all candidates" if row.sample == row.candidates else f"extrapolated from {row.sample:.0f} candidates"
        memory = f", {row.matrices:.1f} U x U matrices" if pd.notna(row.matrices) else ""
        lines.append(f"| {row.contender} | {row.seconds:.3g} | {how}{memory} |")
    lines += ["", *titles("what", "against", "quantity", "wanted", "had", "met")]
    for row in pd.read_csv(config.ROOT / "results/perf/lookahead-bars.csv").fillna("").itertuples():
        wanted, had = (f"{value:.3g}" if value != "" else "" for value in (row.wanted, row.had))
        lines.append(f"| {row.what} | {row.against} | {row.quantity} | {wanted} | {had} | {row.met} |")
    seconds = rows.set_index("contender").seconds
    kernel, mine = seconds["kernel blocks"], seconds["posterior, from f_L"]
    with_kernel = " and ".join(
        f"{(kernel + seconds[other]) / (kernel + mine):.1f} times as fast as the {other}"
        for other in ("block formula", "re-solve")
    )
    sizes = everything[everything.contender.str.startswith("posterior") & everything.group.str.startswith("growth")]
    memory = f"{sizes.matrices.min():.1f} to {sizes.matrices.max():.1f} U x U matrices"
    where = f"On {base.processor}. Kernel blocks included, the posterior, from f_L, is {with_kernel}."
    return "\n".join([*lines, "", f"{where} At other sizes, which have no target, it takes {memory}."])


def paper_costs() -> str:
    """What scale paper would cost on the machine that wrote results/perf/plan-paper.csv."""
    table = pd.read_csv(config.ROOT / "results/perf/plan-paper.csv")
    lines = titles("dataset", "net", "width", "jobs", "hours per job, on average")
    spent = table.assign(hours=table["jobs"] * table["seconds_per_job"] / 3600)
    spent = spent.groupby(["dataset", "net", "width"], as_index=False)[["jobs", "hours"]].sum()  # over recipes
    for row in spent.itertuples():
        lines.append(f"| {row.dataset} | `{row.net}` | {row.width} | {row.jobs} | {row.hours / row.jobs:,.1f} |")
    where = f"{table['processor'][0]}, {table['device'][0]}, {table['threads'][0]} threads"
    summed = f"{spent['jobs'].sum()} jobs, {spent['hours'].sum():,.0f} hours one at a time on {where}."
    return "\n".join([*lines, "", f"{summed} {retraining()}"])


def retraining() -> str:
    """How much more naive look-ahead trains in its queries than a cell does otherwise, counted in images."""
    paper = config.load("paper")
    panel = next(panel for panel in paper["lookahead"]["panels"].values() if "naive" in panel["strategies"])
    settings = grid.settings(paper, panel["dataset"], panel["recipe"])
    protocol = settings["protocol"]
    labels = [protocol["initial"] + cycle * protocol["query"] for cycle in range(protocol["cycles"])]
    trained = sum(labels) * settings["recipe"]["epochs"]
    epochs = registry.components("strategies")["naive"].constants["OPTIONS"]["epochs"]
    retrained = sum(count + 1 for count in labels[:-1]) * protocol["subset"] * epochs  # nothing is bought at the end
    return (
        f"The {len(paper['seeds'])} jobs of `naive` come to far more: its queries train on "
        f"{retrained / trained:.0f} times as many images as its ordinary training does."
    )


def table_list() -> str:
    return ", ".join(f"`{name}.csv`" for name in grid.TABLES)


BLOCKS = {
    "figures": figure_map,
    "tables": table_list,
    "strategies": lambda: component_list("strategies"),
    "nets": lambda: component_list("nets", "WIDTH"),
    "datasets": lambda: component_list("datasets"),
    "cpu-figures": cpu_figures,
    "cpu-results": cpu_results,
    "cpu-claims": cpu_claims,
    "cpu-tests": cpu_tests,
    "cpu-choices": cpu_choices,
    "paper-costs": paper_costs,
    "kernel-speed": kernel_speed,
    "kernel-elsewhere": kernel_elsewhere,
    "kernel-bars": kernel_bars,
    "kernel-profiles": kernel_profiles,
    "lookahead-speed": lookahead_speed,
}
