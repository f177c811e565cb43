"""What docs/results-lookahead.md says of the committed runs: blocks of Markdown from the tables of scale cpu."""

from fnmatch import fnmatch

import pandas as pd

from bench.core import config, csv, paths, registry, study
from bench.report import pages, words
from bench.studies import lookahead
from bench.studies.lookahead.curves import SETTING
from bench.studies.lookahead.tables import PUBLISHED

# What a reader wants to know first: a claim, and the panel that speaks for it
KEY = {
    "2.1b-ntk": "thesis-2.1b",
    "A.1a": "thesis-A.1a",
    "2.1a-time": "thesis-2.1a",
    "2.1a-accuracy": "thesis-2.1a",
    "2.3-sequential": "thesis-2.3-left",
    "start-random": "start-warm",
}


def headline() -> str:
    return pages.headline("lookahead", KEY)


def results() -> str:
    """Accuracies, a row per setting and strategy."""
    areas, summary = words.committed("lookahead-areas"), words.committed("lookahead-summary")
    keys = [*SETTING, "strategy"]
    rows = areas.drop_duplicates(keys)
    rows = rows.assign(size=rows.groupby("dataset")["strategy"].transform("size"))  # the dataset with most rows first
    rows = rows.sort_values(["size", "dataset", "area_mean"], ascending=[False, True, False])
    shown = []
    for row in rows.itertuples():
        mine = summary[(summary[keys] == [getattr(row, key) for key in keys]).all(axis=1)]
        last = mine.loc[mine["cycle"].idxmax()]
        shown.append(
            (
                *(_dataset(row), row.net, row.width, row.recipe, f"`{row.strategy}`"),
                words.points(row.area_mean, row.area_low, row.area_high),
                words.points(row.difference_mean, row.difference_low, row.difference_high),
                f"`{row.baseline}`",
                words.points(last["accuracy_mean"], last["accuracy_low"], last["accuracy_high"]),
                f"{row.n}{_diverged(row.diverged)}",
            )
        )
    head = ("dataset", "net", "width", "recipe", "strategy", "accuracy over the curve (%)", "minus baseline (points)")
    costs = words.committed("lookahead-costs")
    hours = (costs["n"] * costs["total_seconds"]).sum() / 3600
    note = f"Brackets: 95% t-intervals over seeds. These runs took {hours:.1f} hours of one core."
    data = f"Data: {'; '.join(summary['data'].unique())}."
    return "\n".join([words.table((*head, "baseline", "final accuracy (%)", "seeds"), shown), "", note, data])


def tests() -> str:
    """Table 2.1 of the thesis beside the same tests."""
    rows = []
    for row in words.committed("thesis-2.1").itertuples():
        pair = f": `{row.strategy_a}` and `{row.strategy_b}`" if row.strategy_a else ""
        cycles, seeds = (f"{p:.2g}" if pd.notna(p) else "" for p in (row.p_cycles, row.p_seeds))
        better = row.strategy_a if row.mean_difference_cycles > 0 else row.strategy_b
        here = f"`{better}`, by {100 * abs(row.mean_difference_cycles):.1f}" if pair and cycles else ""
        said = f"`{row.better}`" if row.better else ""
        published = (f"{row.p_published:g}", said)
        rows.append((f"{row.test}{pair}", *published, cycles, here, row.verdict, seeds, row.verdict_seeds))
    head = ("test", "p, thesis", "better there", "p, blocks = cycles", "better here, by points", "verdict")
    return words.table((*head, "p, blocks = seeds", "verdict"), rows)


def choices() -> str:
    """What the thesis and its released code do differently, and what it changes."""
    found = words.committed("lookahead-choices")
    absent = [name for name in csv.read(PUBLISHED / "thesis-choices.csv")["choice"] if name not in set(found["choice"])]
    rows = []
    for row in found.itertuples():
        rest = [f"`{value}`" for value in (row.net, row.recipe, row.strategy) if words.text(value)]
        shown = words.points(row.area_mean, row.area_low, row.area_high) + _diverged(row.diverged)
        where = ", ".join([_dataset(row), *rest, f"width {row.width}"])
        rows.append((row.choice, f"`{row.thesis}`", f"`{row.code}`", where, shown, f"{row.area_p:.2g}"))
    head = ("choice", "thesis", "released code", "seen in", "code minus thesis, over the curve (points)", "p")
    note = f"Not measured at this scale: {', '.join(absent) or 'none'}."
    if not rows:
        return "No choice has finished runs of both its arms at this scale."
    return "\n".join([words.table(head, rows), "", note])


def figures() -> str:
    """Links to the figures that were drawn and show something."""
    panels = words.committed("lookahead-summary")["panel"].unique()
    lines = []
    for name, figure in study.figures("lookahead").items():
        path, shown = paths.figure_stem("cpu", f"{name}.png"), figure.constants.get("PANELS", ())
        if (config.ROOT / path).is_file() and any(fnmatch(panel, pattern) for panel in panels for pattern in shown):
            lines.append(f"- [{name}](../{path}): {figure.constants['TITLE']}")
    return "\n".join(lines) or "None yet."


def retraining() -> str:
    """How much more naive look-ahead trains in its queries than a cell does otherwise, counted in images."""
    paper = config.load("paper")
    panel = next(panel for panel in paper["lookahead"]["panels"].values() if "naive" in panel["strategies"])
    settings = lookahead.of_setting(paper, panel["dataset"], panel["recipe"])
    protocol, work = settings["protocol"], lookahead.work(settings)
    labels = [protocol["initial"] + cycle * protocol["query"] for cycle in range(protocol["cycles"])]
    epochs = registry.components("strategies")["naive"].constants["OPTIONS"]["epochs"]
    retrained = sum(count + 1 for count in labels[:-1]) * protocol["subset"] * epochs  # nothing is bought at the end
    return (
        f"`naive` costs far more: its queries train on {retrained / work['trained']:.0f} times as many images as its "
        "ordinary training does."
    )


def _dataset(row) -> str:
    return row.dataset + (" (partial)" if ", partial" in row.data else "")


def _diverged(count: int) -> str:
    return f" ({count} diverged)" if count else ""


BLOCKS = {
    "lookahead-answer": lambda: pages.answer("lookahead"),
    "lookahead-claims": lambda: pages.claims_table("lookahead"),
    "lookahead-results": results,
    "lookahead-tests": tests,
    "lookahead-choices": choices,
    "lookahead-departures": lambda: pages.departures("lookahead"),
    "lookahead-figures": figures,
    "lookahead-retraining": retraining,
}
