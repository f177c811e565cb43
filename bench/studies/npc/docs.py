"""What docs/results-npc.md and README say of the committed runs: blocks of Markdown from the tables of scale cpu."""

import pandas as pd

from bench.core import config, csv, paths, study
from bench.report import pages, stats, words
from bench.studies.npc.figures._parts import called, shown
from bench.studies.npc.figures.npc_criteria import CRITERIA, OUTCOMES, PANEL
from bench.studies.npc.figures.npc_setting import PREFIX
from bench.studies.npc.tables import PUBLISHED

# What a reader wants to know first: a claim, and the panel that speaks for it
KEY = {
    "N21-ssl": "npc-table-1 and controls-supervised-strong, 30",
    "N24-passive-mean": "npc-table-1",
    "N03-best": "npc-table-1",
    "N04-badge": "npc-table-1",
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
        ours = "" if pd.isna(row.mean) else _spread(row.mean, row.sd)
        interval = f"[{row.low:.1f}, {row.high:.1f}]" if pd.notna(row.low) else ""
        place = row.panel.removeprefix(f"npc-table-{row.table}").strip("-").partition("-")[0]
        rows.append((row.table, place, called(row.strategy), row.labelled, theirs, ours, interval, row.n or ""))
    head = ("table", "query", "strategy", "labels", "printed (%)", "here (%)", "95% interval", "trials")
    return "\n".join([words.table(head, rows), "", _suspicious()])


def _spread(mean: float, sd: float) -> str:
    """`64.4 +- 1.2`; of one trial its value."""
    return f"{mean:.1f}" + (f" +- {sd:.1f}" if pd.notna(sd) else "")


def _suspicious() -> str:
    """The two printed numbers that look like slips."""
    printed = csv.read(PUBLISHED).set_index(["panel", "strategy", "labelled"])["mean"]
    first, last = printed["npc-table-2", "initial", 100], printed.xs(("npc-table-2", 900), level=("panel", "labelled"))
    gains = last - first
    others = gains.drop("badge").min()
    return (
        "Two printed numbers are suspicious: margin has the same mean and deviation at 50 and at 70 labels, and BADGE "
        f"on CIFAR-100 gains {gains['badge']:.1f} points from 100 to 900 labels where every other strategy gains "
        f"{others:.1f} or more."
    )


def setting() -> str:
    """Random acquisition at several numbers of steps, from which one was chosen."""
    summed = words.committed("npc-summary")
    summed = summed[summed["panel"].str.startswith(PREFIX)]
    counts, rows = sorted(summed["labelled"].unique()), []
    for panel in sorted(summed["panel"].unique(), key=lambda name: int(name.removeprefix(PREFIX))):
        mine = summed[summed["panel"] == panel].set_index("labelled")
        said = [
            _spread(100 * mine["accuracy_mean"][count], 100 * mine["accuracy_sd"][count]) if count in mine.index else ""
            for count in counts
        ]
        rows.append((f"{int(panel.removeprefix(PREFIX)):,}", *said))
    return words.table(("steps", *(f"{count} labels (%)" for count in counts)), rows)


def criteria() -> str:
    """What the criterion goes along with: rank correlations over random batches, means over a trial's queries."""
    found = shown(words.committed("npc-criteria"), PANEL)
    rows = []
    for outcome, title in OUTCOMES.items():
        cells = []
        for criterion in CRITERIA:
            mine = found[(found["criterion"] == criterion) & (found["outcome"] == outcome)]
            said = stats.describe(mine.groupby("seed")["correlation"].mean())
            cells.append(words.plain(said["mean"], said["low"], said["high"]))
        rows.append((title.replace("\n", " "), *cells))
    return words.table(("over random batches", *CRITERIA.values()), rows)


def rankings() -> str:
    """The same label sets in two trainings: gains over passive learning, and how alike the orders are."""
    found = words.committed("npc-rankings")
    rows = [
        (
            *(row.panel.removeprefix("controls-"), row.labelled, called(row.strategy)),
            *(f"{100 * gain:.1f}" for gain in (row.gain_here, row.gain_there)),
            *(words.points(row.change, row.low, row.high), row.n, f"{row.tau:.2f}" if pd.notna(row.tau) else ""),
        )
        for row in found[found["strategy"] != "random"].itertuples()
    ]
    head = ("other training", "labels", "strategy", "gain, semi-supervised", "gain, other", "difference (points)")
    return words.table((*head, "trials", "Kendall's tau of the orders"), rows)


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
    "npc-setting": setting,
    "npc-printed": printed,
    "npc-criteria": criteria,
    "npc-panels": panels,
    "npc-rankings": rankings,
    "npc-noise": noise,
    "npc-departures": lambda: pages.departures("npc"),
    "npc-figures": figures,
}
