"""What docs/results-theory.md and README say of the committed runs: blocks of Markdown from the tables of scale cpu."""

import importlib

import pandas as pd

from bench.core import config, csv, paths, registry, study
from bench.report import pages, words
from bench.report.claims import overall
from bench.studies.theory import EXPERIMENTS

# What a reader wants to know first, in this order
KEY = (
    *("smooth-bound", "relu-bound", "arccos-closed", "warm-cold", "width-function", "npc-decay"),
    *("block-printed", "flow-printed", "search-printed", "npc-last-printed", "npc-distinct"),
    *("npc-step-min", "npc-test", "early-together", "relu-constant"),
)


def headline() -> str:
    """How many statements hold, and of the key ones which do, and which do not, each with its place."""
    claims = words.committed("theory-claims")
    first, verdicts = claims.drop_duplicates("claim").set_index("claim"), overall(claims)["theory"]
    lines = [pages.headline("theory", {})]
    for verdict in ("supported", "not supported"):
        mine = [claim for claim in KEY if verdicts[claim] == verdict]
        said = [f"{first.loc[claim, 'statement']} ({_place(first.loc[claim, 'source'])})" for claim in mine]
        more = (verdicts == verdict).sum() - len(mine)
        if said:
            lines.append(f"  - **{verdict.capitalize()}**, among others: {'; '.join(said)}; and {more} more.")
    return "\n".join(lines)


def _place(source: str) -> str:
    """`thesis (2.12)` of `thesis (2.12); the suite's own form`."""
    return source.partition(";")[0]


def found(rows: pd.DataFrame) -> str:
    """What a claim measured, over all its settings: one value with its interval, or the range of values."""
    rows = rows[rows["n"] > 0]
    if len(rows) == 1:
        return words.measured(next(rows.itertuples()))
    if rows.empty:
        return ""
    unit = rows["unit"].iloc[0]
    return f"{rows['measured'].min():.3g} to {rows['measured'].max():.3g} {unit}".rstrip()


def appendix() -> str:
    """A section for each experiment: its statement, its figure, its claims."""
    claims, listed = words.committed("theory-claims"), csv.read(study.folder("theory") / "claims.csv")
    of = listed.set_index("claim")["experiment"]
    verdicts, parts = overall(claims)["theory"], []
    for name, component in ordered().items():
        figure = paths.figure_stem("cpu", f"theory-{name}")
        title = study.figures("theory")[f"theory-{name}"].constants["TITLE"]
        parts += [f"## {name}", "", prose(component), ""]
        if (config.ROOT / f"{figure}.png").is_file():
            parts += [f"![{title}](../{figure}.png)", "", f"{title}.", ""]
        mine = claims[claims["claim"].map(of) == name]
        rows = [
            (
                *(group["statement"].iloc[0], group["published"].iloc[0], found(group)),
                *(f"**{verdicts[claim]}**", tried(group)),
            )
            for claim, group in mine.groupby("claim", sort=False)
        ]
        parts += [words.table(("statement", "published", "measured", "verdict", "from"), rows), ""]
    return "\n".join(parts).rstrip()


def tried(rows: pd.DataFrame) -> str:
    """`5 settings, 10 seeds, 18,000 trials`"""
    rows = rows[rows["n"] > 0]
    if rows.empty:
        return ""
    trials = rows["note"].str.extract(r"^([\d,]+) trials")[0].dropna().str.replace(",", "").astype(int).sum()
    many = [f"{len(rows)} settings"] if len(rows) > 1 else []
    return ", ".join([*many, f"{rows['n'].max()} seeds", *([f"{trials:,} trials"] if trials else [])])


def ordered() -> dict[str, registry.Component]:
    """The experiments in the order of the schema, which is that of the works."""
    known = registry.components(EXPERIMENTS)
    return {
        name: known[name] for name in config.schema()["properties"]["theory"]["properties"]["experiments"]["properties"]
    }


def prose(component: registry.Component) -> str:
    """The docstring of an experiment as Markdown: statement, place and what would refute it, a paragraph each."""
    text = importlib.import_module(component.module).__doc__.strip()
    for word in ("Statement:", "Where:", "Refuted by:"):
        text = text.replace(f"\n{word}", f"\n\n*{word}*")
    return text.replace("\n\n\n", "\n\n")


def rates() -> str:
    """Fitted exponents with both intervals."""
    rows = [
        (
            *(row.experiment, f"`{row.quantity}`", ", ".join(filter(None, [row.setting, row.group]))),
            *(f"{row.along} {row.first:,.10g} to {row.last:,.10g}", words.plain(row.exponent, row.low, row.high)),
            *(f"[{row.bootstrap_low:.3g}, {row.bootstrap_high:.3g}]" if pd.notna(row.bootstrap_low) else "", row.n),
        )
        for row in words.committed("theory-rates").itertuples()
    ]
    head = ("experiment", "quantity", "setting", "fitted over", "exponent, t-interval", "pairs bootstrap", "seeds")
    return words.table(head, rows)


BLOCKS = {
    "theory-answer": lambda: pages.answer("theory"),
    "theory-experiments": appendix,
    "theory-rates": rates,
}
