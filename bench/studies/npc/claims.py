"""What the trials say of NPC's claims (claims.csv). Quantities:

    difference   accuracy of a minus that of b, by trial; in `panel_b` for b, if there is one. `labels`: at `each`
                 count, or the mean over `all`; `beyond`: only counts that exceed the rank of the last layer's kernel.
                 `b` = `best` is the other strategy of the panel with the best mean, which is chosen on these trials
    change       (a minus b in `panel`) minus (a minus b in `panel_b`), by trial
    growth       accuracy of a at the last label count minus that at the first
    overlap      IoU of the labels of a and b in a trial, minus the largest of any other two strategies
    repeats      IoU of the labels of a in two trials, minus the largest of any other strategy. No trial is in two
                 pairs, so that an interval over pairs is one
    collapse     share of the queries beyond the rank in which a could not tell any two batches apart
    correlation  Spearman's, over random batches, of criterion a with outcome b, a mean over the queries of a trial
    printed      by how much two printed numbers of a differ, at the two `labels`

`panel` and `panel_b` may be patterns, matched in turn. Accuracies of other images than the paper's are never compared
with printed ones; an order of strategies is, and the departures stand beside the verdict.
"""

from fnmatch import fnmatch
from itertools import combinations

import pandas as pd

from bench.core import csv
from bench.core.study import texts
from bench.report.claims import Measured
from bench.studies import npc
from bench.studies.npc.curves import by_trial, of_place
from bench.studies.npc.tables import PUBLISHED, iou


def measure(claim: dict, frames: dict[str, pd.DataFrame], config: dict) -> list[Measured]:
    """One for every panel, or pair of panels, that the claim is about, and every label count it is to hold at."""
    kind, panels = claim["quantity"], npc.panels(config)
    if kind == "printed":
        return [_printed(claim)]
    found = []
    for name, other in _pairs(claim, panels):
        for measured in KINDS[kind](claim, panels[name], panels[other], frames):
            said = texts([each for each in npc.departures(config) if each.panel in (name, other)])
            measured.setting = ", ".join(
                filter(None, [name if name == other else f"{name} and {other}", measured.setting])
            )
            measured.departures = "; ".join(dict.fromkeys(said.values()))
            measured.data = next(iter(of_place(frames["npc-curves"], panels[name])["data"]), "")
            found.append(measured)
    return found


def _pairs(claim: dict, panels: dict) -> list[tuple[str, str]]:
    """Panels that match; a panel of `panel_b` goes with the one whose name ends alike, if the pattern has an end."""
    mine = [name for name in panels if fnmatch(name, claim["panel"])]
    if not claim["panel_b"]:
        return [(name, name) for name in mine]
    theirs = [name for name in panels if fnmatch(name, claim["panel_b"])]
    if "*" not in claim["panel"]:
        return [(name, other) for name in mine for other in theirs]
    return [(a, b) for a in mine for b in theirs if a.rpartition("-")[2] == b.rpartition("-")[2]]


def _difference(claim: dict, panel: dict, other: dict, frames: dict) -> list[Measured]:
    curve = frames["npc-curves"]
    counts = sorted(set(of_place(curve, panel)["labelled"]) & set(of_place(curve, other)["labelled"]))
    which, _, beyond = claim["labels"].partition(" ")
    if beyond:
        counts = [count for count in counts if count in _beyond_rank(panel, frames)]
    curve, found = curve[curve["labelled"].isin(counts)], []
    for labelled in counts if which == "each" else [None]:
        b, why = claim["b"], ""
        if b == "best":
            rivals = [each for each in panel["strategies"] if each not in (claim["a"], "initial")]
            means = {each: by_trial(curve, panel, each, labelled).mean() for each in rivals}
            means = {each: mean for each, mean in means.items() if pd.notna(mean)}
            if not means:
                continue
            b = max(means, key=means.get)
            why = f"the best of {', '.join(f'`{name}`' for name in means)} on these very trials, which favours it"
        values = (by_trial(curve, panel, claim["a"], labelled) - by_trial(curve, other, b, labelled)).dropna()
        if len(values):
            arms = f"`{claim['a']}` minus `{b}`" if claim["a"] != b else f"`{b}` in the first minus in the second"
            where = f"{labelled} labels" if labelled else f"from {counts[0]} labels on" if beyond else ""
            found.append(Measured(values, setting=where, arms=arms, note=why))
    return found


def _beyond_rank(panel: dict, frames: dict) -> set[int]:
    """Label counts that exceed the rank of the kernel in every query of the panel that noted one."""
    queries = of_place(frames["npc-queries"], panel)
    queries = queries[queries["rank"].notna()]
    beyond = (queries["labelled"] > queries["rank"]).groupby(queries["labelled"]).all()
    return set(beyond.index[beyond])


def _change(claim: dict, panel: dict, other: dict, frames: dict) -> list[Measured]:
    curve = frames["npc-curves"]
    counts = set(of_place(curve, panel)["labelled"])
    there = curve[curve["labelled"].isin(counts)]  # the control has the initial labels, too
    here, over = (
        by_trial(there, place, claim["a"], None) - by_trial(there, place, claim["b"], None) for place in (panel, other)
    )
    values = (here - over).dropna()
    return [Measured(values, arms=f"`{claim['a']}` minus `{claim['b']}`")] if len(values) else []


def _growth(claim: dict, panel: dict, other: dict, frames: dict) -> list[Measured]:
    curve = frames["npc-curves"]
    counts = sorted(of_place(curve, panel)["labelled"].unique())
    if len(counts) < 2:
        return []
    first, last = (by_trial(curve, panel, claim["a"], count) for count in (counts[0], counts[-1]))
    return [Measured((last - first).dropna(), setting=f"{counts[0]} to {counts[-1]} labels", arms=f"`{claim['a']}`")]


def _overlap(claim: dict, panel: dict, other: dict, frames: dict) -> list[Measured]:
    values = []
    for _, sets in _label_sets(panel, frames).groupby("seed"):
        bought = dict(zip(sets["strategy"], sets["bought"], strict=True))
        shared = {frozenset(pair): iou(bought[pair[0]], bought[pair[1]]) for pair in combinations(sorted(bought), 2)}
        if (mine := shared.pop(frozenset((claim["a"], claim["b"])), None)) is not None and shared:
            values.append(mine - max(shared.values()))
    return [Measured(values, arms=f"`{claim['a']}` and `{claim['b']}`, minus any other two", unit="")] if values else []


def _repeats(claim: dict, panel: dict, other: dict, frames: dict) -> list[Measured]:
    sets = _label_sets(panel, frames).set_index(["strategy", "seed"])["bought"]
    values = []
    for one, other in zip(panel["seeds"][::2], panel["seeds"][1::2], strict=False):  # of an odd number the last is left
        repeated = {
            strategy: iou(sets[strategy, one], sets[strategy, other])
            for strategy in panel["strategies"]
            if (strategy, one) in sets.index and (strategy, other) in sets.index
        }
        if (mine := repeated.pop(claim["a"], None)) is not None and repeated:
            values.append(mine - max(repeated.values()))
    arms = f"`{claim['a']}`, minus any other"
    return [Measured(values, arms=arms, unit="", note="n counts pairs of trials")] if values else []


def _label_sets(panel: dict, frames: dict) -> pd.DataFrame:
    """The labels that each strategy has bought by the end of each trial of a panel."""
    queries = of_place(frames["npc-queries"], panel)
    joined = queries.groupby(["strategy", "seed"])["queried"].agg(lambda texts: set(" ".join(texts).split()))
    return joined.rename("bought").reset_index()


def _collapse(claim: dict, panel: dict, other: dict, frames: dict) -> list[Measured]:
    queries = of_place(frames["npc-queries"], panel)
    beyond = queries[(queries["strategy"] == claim["a"]) & (queries["labelled"] > queries["rank"])]
    values = beyond["rounding"].astype(bool).groupby(beyond["seed"]).mean()
    return [Measured(values, arms=f"`{claim['a']}`", unit="%", exact=True, note=f"{len(beyond)} queries")]


def _correlation(claim: dict, panel: dict, other: dict, frames: dict) -> list[Measured]:
    found = of_place(frames["npc-criteria"], panel)
    mine = found[(found["criterion"] == claim["a"]) & (found["outcome"] == claim["b"])]
    values = mine.groupby("seed")["correlation"].mean().dropna()
    return [Measured(values, arms=f"{claim['a']} with {claim['b']}", unit="")] if len(values) else []


def _printed(claim: dict) -> Measured:
    published = csv.read(PUBLISHED)
    numbers = published[(published["panel"] == "npc-table-1") & (published["strategy"] == claim["a"])]
    first, second = (numbers.set_index("labelled").loc[int(count), "mean"] for count in claim["labels"].split())
    return Measured([abs(first - second) / 100], exact=True, note="printed numbers, nothing was run")


KINDS = {
    "difference": _difference,
    "change": _change,
    "growth": _growth,
    "overlap": _overlap,
    "repeats": _repeats,
    "collapse": _collapse,
    "correlation": _correlation,
}
