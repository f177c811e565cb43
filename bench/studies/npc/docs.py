"""What docs/results-npc.md and README say of the committed runs: blocks of Markdown from the tables of scale cpu."""

import pandas as pd

from bench.core import config, paths, study
from bench.report import pages, words
from bench.studies.npc.figures._parts import called

# What a reader wants to know first: a claim, and the panel that speaks for it
KEY = {
    "N21-ssl": "npc-table-1 and controls-supervised-strong, 30",
    "N01-passive": "npc-table-1, 30",
    "N03-best": "npc-table-1",
    "N04-badge": "npc-table-1",
    "N06-collapse": "npc-table-2",
    "N15-ranking": "npc-table-1 and controls-supervised-weak",
    "N18-diversity": "npc-table-1",
    "N20-darp": "npc-table-1 and controls-fixmatch, 30",
}


def headline() -> str:
    return pages.headline("npc", KEY)


def printed() -> str:
    """Tables 1 to 3, printed and measured."""
    rows = []
    for row in words.committed("npc-published").itertuples():
        theirs = f"{row.published_mean:g}" + (f" +- {row.published_sd:g}" if pd.notna(row.published_sd) else "")
        ours = "" if pd.isna(row.mean) else f"{row.mean:.1f} +- {row.sd:.1f}"
        interval = f"[{row.low:.1f}, {row.high:.1f}]" if pd.notna(row.low) else ""
        place = row.panel.removeprefix(f"npc-table-{row.table}").strip("-").partition("-")[0]
        rows.append((row.table, place, called(row.strategy), row.labelled, theirs, ours, interval, row.n or ""))
    head = ("table", "query", "strategy", "labels", "printed (%)", "here (%)", "95% interval", "trials")
    return words.table(head, rows)


def panels() -> str:
    """Accuracies of every panel that repeats no table."""
    rows = []
    summed = words.committed("npc-summary")
    ours = summed[~summed["panel"].str.startswith("npc-table-") & (summed["strategy"] != "initial")]
    for (panel, strategy), group in ours.groupby(["panel", "strategy"], sort=False):
        shown = [
            f"{row.labelled}: {words.points(row.accuracy_mean, row.accuracy_low, row.accuracy_high)}"
            for row in group.sort_values("labelled").itertuples()
        ]
        rows.append((panel, called(strategy), "; ".join(shown), group["n"].max()))
    return words.table(("panel", "strategy", "labels: accuracy (%)", "trials"), rows)


def noise() -> str:
    """How much a trial says: standard deviations of paired differences, and what would decide."""
    found = words.committed("npc-differences")
    found = found[(found["panel"] == "npc-table-1") & (found["strategy_b"] == "npc")]
    rows = [
        (
            *(called(row.strategy_a), row.labelled, words.points(-row.mean, -row.high, -row.low)),
            *(f"{100 * row.sd:.1f}", row.n, row.trials_needed),
        )
        for row in found.itertuples()
    ]
    head = ("NPC minus", "labels", "points", "sd of a difference", "trials", "trials that would decide")
    return words.table(head, rows)


def figures() -> str:
    """Links to the figures that were drawn."""
    lines = []
    for name, figure in study.figures("npc").items():
        path = paths.figure_stem("cpu", f"{name}.png")
        if (config.ROOT / path).is_file():
            lines.append(f"- [{name}](../{path}): {figure.constants['TITLE']}")
    return "\n".join(lines) or "None yet."


BLOCKS = {
    "npc-answer": lambda: pages.answer("npc"),
    "npc-claims": lambda: pages.claims_table("npc"),
    "npc-printed": printed,
    "npc-panels": panels,
    "npc-noise": noise,
    "npc-departures": lambda: pages.departures("npc"),
    "npc-figures": figures,
}
