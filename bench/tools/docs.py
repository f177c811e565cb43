"""The documents that repeat what code and tables know: config/README.md whole, and marked blocks of the others.

`python -m bench docs` rewrites them; a test fails when they are out of step. A block starts at `<!-- begin NAME -->`,
ends at `<!-- end NAME -->`; each NAME is a function here, in a study's `docs.py`, or in `bench.tools.perf.report`.
"""

import json
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pandas as pd

from bench.core import config, registry, study
from bench.report import claims, pages, words
from bench.tools.perf import report as perf

MANUAL = "config/README.md"


def documents() -> list[Path]:
    """Every document with marked blocks."""
    return [config.ROOT / "README.md", *sorted((config.ROOT / "docs").glob("*.md"))]


def write() -> list[Path]:
    """Rewrite them all; those that changed."""
    texts = {config.ROOT / MANUAL: manual()} | {path: filled(path.read_text()) for path in documents()}
    changed = [path for path, text in texts.items() if path.read_text() != text]
    for path in changed:
        path.write_text(texts[path])
    return [path.relative_to(config.ROOT) for path in changed]


def filled(text: str) -> str:
    """A document with every marked block written anew."""
    known = blocks()

    def block(match: re.Match) -> str:
        name = match[1]
        try:
            text = known[name]()
        except FileNotFoundError as error:
            text = f"(from `{Path(error.filename).relative_to(config.ROOT)}`, which has not been made yet)"
        return f"<!-- begin {name} -->\n{text}\n<!-- end {name} -->"

    return re.sub(r"<!-- begin ([a-z0-9-]+) -->\n.*?<!-- end \1 -->", block, text, flags=re.DOTALL)


def blocks() -> dict[str, Callable[[], str]]:
    found = BLOCKS | perf.BLOCKS
    for name in study.names():
        found |= getattr(_documents(name), "BLOCKS", {})
    return found


def _documents(name: str) -> ModuleType | None:
    """What a study has to say for documents, if it has."""
    return study.part(name, "docs") if find_spec(f"bench.studies.{name}.docs") else None


def manual() -> str:
    """The key-by-key manual of the configuration, from the schema."""
    head = (
        "# Configuration, key by key\n\n"
        "One file is one scale: `quick.yaml` (the default), `cpu.yaml` (real data on a CPU), `paper.yaml` (the\n"
        "papers' values). Choose one with `snakemake --cores all --config scale=cpu`, or bring your own with\n"
        "`--configfile`. Every study has a section of its name.\n\n"
        "A file states only what departs from the defaults below. The defaults are the papers' values. Where a paper\n"
        "is silent, the default is our choice, and its description says so. Devices, threads and memory are set on\n"
        "the command line and in `profiles/`.\n\n"
        "Written by `python -m bench docs` from `bench/core/schema.yaml`, `bench/learn/schema.yaml` and\n"
        "`bench/studies/*/schema.yaml`.\n\n"
    )
    return head + words.table(("key", "default", "meaning"), _keys(config.schema())) + "\n"


def _keys(node: dict, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """(key, default, description) of every key; objects of one shape are described once, under <name>."""
    node = config.resolve(node)
    others = node.get("additionalProperties") or None
    for name, child in node.get("properties", {}).items():
        child, key = config.resolve(child), f"{prefix}{name}"
        inner = "properties" in child or isinstance(child.get("additionalProperties"), dict)
        required = name in node.get("required", [])
        yield f"`{key}`", "required" if required else _default(child, inner), _meaning(child)
        if inner and not others:
            yield from _keys(child, f"{key}.")
    if isinstance(others, dict):
        yield from _keys(others, f"{prefix}<name>.")


def _default(node: dict, inner: bool) -> str:
    if "default" not in node:
        return ""
    if inner and not node["default"]:
        return "" if "properties" in node else "`{}`"
    text = json.dumps(node["default"])
    return f"`{text}`" if len(text) < 400 else f"{len(node['default'])} entries, see the schema"


def _meaning(node: dict) -> str:
    allowed = f" One of {', '.join(f'`{value}`' for value in node['enum'])}." if "enum" in node else ""
    return " ".join(node["description"].split()) + allowed


def verdicts() -> str:
    """Studies x verdicts at the committed scale."""
    counts = claims.counts(words.committed("claims"))
    rows = [(f"[`{name}`](docs/results-{name}.md)", _title(name), *counts.loc[name]) for name in counts.index]
    return words.table(("study", "of", *claims.VERDICTS), rows)


def headline() -> str:
    """The answer so far, a study after the other: what was decided, with numbers, and how much was not."""
    names = words.committed("claims")["study"].unique()
    own = {name: getattr(_documents(name), "headline", lambda name=name: pages.headline(name, {})) for name in names}
    return "\n".join(f"- {said()}" for said in own.values())


def _title(name: str) -> str:
    return study.load(name).__doc__.partition("\n")[0].rstrip(".")


def ledger() -> str:
    """Every claim of every study with its verdict."""
    frame, parts = words.committed("claims"), []
    for name, rows in frame.groupby("study", sort=False):
        settings = rows.groupby("claim")["claim"].transform("size") > 1  # of a statement tested in several: which one
        about = [
            ", ".join(filter(None, map(words.text, (row.arms, row.setting if many else "", row.note))))
            for row, many in zip(rows.itertuples(), settings, strict=True)
        ]
        shown = [
            (
                row.where,
                row.statement + (f" ({said})" if said else ""),
                row.published,
                words.measured(row),
                row.n or "",
                f"**{row.verdict}**",
                row.seeds_needed,
            )
            for row, said in zip(rows.itertuples(), about, strict=True)
        ]
        head = ("where", "statement", "published", "measured", "seeds", "verdict", "seeds needed")
        parts += [f"## {_title(name)}", "", words.table(head, shown), ""]
    return "\n".join(parts).rstrip()


def figure_map() -> str:
    """Figure -> what it shows -> tables -> module."""
    rows = [
        (
            f"`{name}`",
            figure.constants["TITLE"],
            ", ".join(f"`{table}.csv`" for table in figure.constants["TABLES"]),
            f"[{figure.module.rpartition('.')[2]}.py](../{figure.module.replace('.', '/')}.py)",
        )
        for name, figure in study.all_figures().items()
    ]
    return words.table(("figure", "shows", "from tables", "drawn by"), rows)


def table_list() -> str:
    lines = [f"- `{name}`: {words.listed(study.load(name).TABLES)}" for name in study.names()]
    return "\n".join([*lines, "- over all studies: `claims`"])


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
    if isinstance(values, int):
        return f"any number (default {values})"
    return " or ".join(f"`{value}`" for value in values)


def paper_costs() -> str:
    """What scale paper would cost on the machine that wrote results/perf/plan-paper.csv."""
    prices = pd.read_csv(config.ROOT / "results/perf/plan-paper.csv")
    hours = prices["jobs"] * prices["seconds_per_job"] / 3600
    rows = [
        (f"`{name}`", f"{jobs:,}", f"{hours:,.0f}")
        for name, jobs, hours in prices.assign(hours=hours).groupby("study")[["jobs", "hours"]].sum().itertuples()
    ]
    where = f"{prices['processor'][0]}, {prices['device'][0]}, {prices['threads'][0]} thread"
    note = f"One job at a time on {where}. Training and evaluation only: queries and kernels are not counted."
    return "\n".join([words.table(("study", "jobs", "hours"), rows), "", note])


BLOCKS = {
    "headline": headline,
    "verdicts": verdicts,
    "ledger": ledger,
    "figures": figure_map,
    "tables": table_list,
    "strategies": lambda: component_list("strategies"),
    "nets": lambda: component_list("nets", "WIDTH"),
    "datasets": lambda: component_list("datasets"),
    "paper-costs": paper_costs,
}
