"""Tables of the NPC study: pure functions from records to frames.

Every function takes whatever cells are finished. Accuracies are fractions, intervals are 95% t-intervals of the mean
over trials, differences are paired by trial: strategies of one trial share weights, order and augmentation.
"""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats as distributions

from bench.core import csv, study
from bench.report import claims, stats
from bench.studies import npc
from bench.studies.npc.batches import MEASURES
from bench.studies.npc.curves import PLACE, RUN, balance, by_panel, by_trial, curves, data_of, initial_of, of_place

PUBLISHED = study.folder("npc") / "published/npc.csv"
CRITERIA, OUTCOMES = MEASURES[:3], MEASURES[3:]
ABOUT = ["scale", "panel", "data", "partial", "average_pool", *PLACE]
SPREAD = ["n", "mean", "sd", "low", "high"]
SUMMARY = [
    *(*ABOUT, "strategy", "labelled", "device", *(f"accuracy_{key}" for key in SPREAD[1:]), "n"),
    *("difference_n", *(f"difference_{key}" for key in SPREAD[1:]), "pool_accuracy", "sure", "sure_accuracy"),
    *("predicted_balance", "train_accuracy", "deviations"),
]
PRINTED = [
    "scale",
    "table",
    "panel",
    "strategy",
    "labelled",
    "published_mean",
    "published_sd",
    *SPREAD,
    "data",
    "source",
]
DIFFERENCES = [*ABOUT, "labelled", "strategy_a", "strategy_b", *SPREAD, "trials_needed"]
QUERIES = [
    *("scale", "data", *RUN, "step", "labelled", "size", "balance", "classes", "wrong", "wrong_of_all", "distance"),
    *("margin", "arm", "rank", "score", "tied", "rounding", "queried"),
]
OVERLAP = ["scale", "panel", "labelled", "strategy_a", "strategy_b", "n", "iou", "iou_with_initial"]
FOUND = ["scale", "data", *RUN, "labelled", "batches", "criterion", "outcome", "correlation"]
RANKINGS = [
    *("scale", "panel", "against", "labelled", "strategy", "n", "gain_here", "gain_there", "change", "low", "high"),
    *("rank_here", "rank_there", "tau"),
]


def tables(records: list[dict], metas: list[dict], config: dict) -> dict[str, pd.DataFrame]:
    """Every table of the study."""
    panels, departing = npc.panels(config), npc.departures(config)
    curve = curves(records)
    summed = summary(curve, panels, config, study.texts(departing))
    frames = {
        "npc-curves": curve,
        "npc-summary": summed,
        "npc-published": published(summed, csv.read(PUBLISHED), config["scale"]),
        "npc-differences": differences(curve, panels),
        "npc-queries": placed(queries(records), panels),
        "npc-overlap": overlap(records, panels),
        "npc-criteria": placed(criteria(records), panels),
        "npc-rankings": rankings(curve, panels, config),
        "npc-departures": pd.DataFrame(
            [asdict(each) for each in departing], columns=["panel", "what", "here", "paper"]
        ).assign(scale=config["scale"]),
    }
    return frames | {"npc-claims": claims.ledger("npc", frames, config)}


def summary(curve: pd.DataFrame, panels: dict, config: dict, deviations: dict[str, str]) -> pd.DataFrame:
    """One row per panel, strategy and number of labels; `initial` is the initial model, sd that of its trainings."""
    rows = []
    for name, panel, shown in by_panel(curve, panels):
        random = shown[shown["strategy"] == "random"].set_index(["seed", "labelled"])["test_accuracy"]
        keys = pd.MultiIndex.from_frame(shown[["seed", "labelled"]])
        shown = shown.assign(difference=shown["test_accuracy"].to_numpy() - random.reindex(keys).to_numpy())
        first = initial_of(curve, panel, config)
        if len(first):
            kept = first[first["median"]].iloc[0]
            rows.append(
                {**kept, "panel": name, "strategy": "initial", "mode": panel["mode"], "n": len(first)}
                | {"accuracy_mean": kept["test_accuracy"], "accuracy_sd": first["test_accuracy"].std()}
                | {"difference_n": 0, "deviations": deviations.get(name, "")}
            )
        for (strategy, labelled), group in shown.groupby(["strategy", "labelled"]):
            means = ("pool_accuracy", "sure", "sure_accuracy", "predicted_balance", "train_accuracy")
            rows.append(
                {**group.iloc[0], "panel": name, "strategy": strategy, "labelled": labelled, "n": len(group)}
                | _prefixed("accuracy", group["test_accuracy"])
                | {"difference_n": group["difference"].count()}
                | _prefixed("difference", group["difference"])
                | {key: group[key].mean() for key in means}
                | {"deviations": deviations.get(name, "")}
            )
    return pd.DataFrame(rows, columns=SUMMARY)


def published(summed: pd.DataFrame, theirs: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Tables 1 to 3: every printed number beside what was measured in its place; percentages."""
    keys = ["panel", "strategy", "labelled"]
    names = {f"accuracy_{key}": key for key in SPREAD[1:]}
    ours = summed[[*keys, "n", "data", *names]].rename(columns=names)
    ours = ours.assign(**{key: 100 * ours[key] for key in SPREAD[1:]})
    both = theirs.rename(columns={"mean": "published_mean", "sd": "published_sd"}).merge(ours, on=keys, how="left")
    return both.assign(scale=scale, n=both["n"].fillna(0).astype(int), data=both["data"].fillna(""))[PRINTED]


def differences(curve: pd.DataFrame, panels: dict) -> pd.DataFrame:
    """Every pair of strategies of a panel, at every number of labels: a - b, and how many trials would decide."""
    rows = []
    for name, panel, shown in by_panel(curve, panels):
        strategies = [each for each in panel["strategies"] if each in set(shown["strategy"])]
        for labelled, group in shown.groupby("labelled"):
            values = group.pivot_table(index="seed", columns="strategy", values="test_accuracy")
            for a, b in combinations([each for each in strategies if each in values], 2):
                found = (values[a] - values[b]).dropna()
                about = {**group.iloc[0], "panel": name, "labelled": labelled, "strategy_a": a, "strategy_b": b}
                needed = claims.seeds_needed(found.to_numpy(), 0, np.inf)
                rows.append(about | {"n": len(found), "trials_needed": needed} | stats.describe(found))
    return pd.DataFrame(rows, columns=DIFFERENCES)


def queries(records: Iterable[dict]) -> pd.DataFrame:
    """One row per query: what was bought (`bench.strategies._bought` has the words), and what the strategy noted."""
    rows = []
    for record in records:
        labelled = len(record["initial"])
        for step, done in enumerate(record["cycles"]):
            if not done["queried"]:
                continue
            labelled += len(done["queried"])
            counts, notes = done["bought"]["classes"], done["notes"]
            rows.append(
                record["cell"]
                | {"scale": record["scale"], "data": data_of(record), "step": step, "labelled": labelled}
                | {"size": len(done["queried"]), "balance": balance(counts), "classes": int(np.count_nonzero(counts))}
                | {key: done["bought"][key] for key in ("wrong", "wrong_of_all", "distance", "margin")}
                | {key: notes.get(key) for key in ("arm", "rank", "score", "tied", "rounding")}
                | {"queried": " ".join(map(str, done["queried"]))}
            )
    numbers = dict.fromkeys(("distance", "rank", "score", "tied"), float)  # even where no strategy has noted any
    return pd.DataFrame(rows, columns=QUERIES).astype({"rounding": object, "arm": object} | numbers)


def overlap(records: Iterable[dict], panels: dict) -> pd.DataFrame:
    """Figure 1: intersection over union of the labels that two strategies bought in all their trials together (%).

    A strategy beside itself: the mean over pairs of its trials. The initial labels, which all have, are left out.
    """
    bought: dict[tuple, dict[int, list[tuple[int, set[int], set[int]]]]] = {}
    for record in records:
        so_far: list[int] = []
        for done in record["cycles"]:
            so_far = [*so_far, *done["queried"]]
            if done["queried"]:
                key = tuple(record["cell"][axis] for axis in (*PLACE, "strategy"))
                entry = (record["cell"]["seed"], set(so_far), set(so_far) | set(record["initial"]))
                bought.setdefault(key, {}).setdefault(len(so_far) + len(record["initial"]), []).append(entry)
    scale = next((record["scale"] for record in records), "")
    rows = []
    for name, panel in panels.items():
        sets = {each: bought.get((*(panel[key] for key in PLACE), each), {}) for each in panel["strategies"]}
        sets = {each: found for each, found in sets.items() if found}
        pairs = [(a, b) for number, a in enumerate(sets) for b in list(sets)[number:]]
        for a, b in pairs:
            for labelled in sorted(set(sets[a]) & set(sets[b])):
                mine, theirs = ([e for e in sets[each][labelled] if e[0] in panel["seeds"]] for each in (a, b))
                if not (mine and theirs):
                    continue
                found = [_iou(mine, theirs, which, same=a == b) for which in (1, 2)]
                about = {"scale": scale, "panel": name, "labelled": labelled, "strategy_a": a, "strategy_b": b}
                rows.append(about | {"n": min(len(mine), len(theirs)), "iou": found[0], "iou_with_initial": found[1]})
    return pd.DataFrame(rows, columns=OVERLAP)


def _iou(mine: list[tuple], theirs: list[tuple], which: int, same: bool) -> float:
    if same:
        pairs = [(a[which], b[which]) for a, b in combinations(mine, 2)]
    else:
        pairs = [tuple(set().union(*(entry[which] for entry in entries)) for entries in (mine, theirs))]
    return 100 * float(np.mean([iou(a, b) for a, b in pairs])) if pairs else stats.NAN


def iou(a: set, b: set) -> float:
    return len(a & b) / len(a | b)


def criteria(records: Iterable[dict]) -> pd.DataFrame:
    """Over the random batches of a query: Spearman's rank correlation of each criterion with each outcome."""
    rows = []
    for record in records:
        labelled = len(record["initial"])
        for done in record["cycles"]:
            labelled += len(done["queried"])
            if not (said := done["criteria"]):
                continue
            about = record["cell"] | {"scale": record["scale"], "data": data_of(record), "labelled": labelled}
            for criterion in CRITERIA:
                for outcome in OUTCOMES:
                    same = (
                        min(np.ptp(said[criterion]), np.ptp(said[outcome])) == 0
                    )  # no order: beyond the rank, all zero
                    value = stats.NAN if same else distributions.spearmanr(said[criterion], said[outcome]).statistic
                    found = {"criterion": criterion, "outcome": outcome, "correlation": float(value)}
                    rows.append(about | found | {"batches": len(said[criterion])})
    return pd.DataFrame(rows, columns=FOUND)


def placed(frame: pd.DataFrame, panels: dict) -> pd.DataFrame:
    """With a column `panels`: the names of those that show a row. Panels of one setting may differ in their trials."""
    names = pd.Series("", index=frame.index)
    for name, panel in panels.items():
        names[of_place(frame, panel).index] += f" {name}"
    return frame.assign(panels=names.str.strip())


def rankings(curve: pd.DataFrame, panels: dict, config: dict) -> pd.DataFrame:
    """The same label sets in two trainings: a strategy's gain over random `here`, in the panel that bought them, and
    `there`, in a panel of a recipe with `labels_of`; `change` is here minus there, by trial. Ranks and Kendall's tau
    are of mean accuracies.
    """
    rows = []
    for name, panel in panels.items():
        base = config["npc"]["recipes"][panel["recipe"].partition("+")[0]]["labels_of"]
        origin = panel | {"recipe": base}
        if not base or "random" not in panel["strategies"]:
            continue
        for labelled in sorted(of_place(curve, panel)["labelled"].unique()):
            gains = {}
            for strategy in panel["strategies"]:
                both = [by_trial(curve, place, strategy, labelled) for place in (origin, panel)]
                gains[strategy] = pd.concat(both, axis=1, keys=["here", "there"], join="inner")
            gains = {strategy: gain for strategy, gain in gains.items() if len(gain)}
            if len(gains) < 2 or "random" not in gains:
                continue
            means = pd.DataFrame({strategy: gain.mean() for strategy, gain in gains.items()}).T  # strategies x 2
            ranks = means.rank(ascending=False)
            tau = (
                float(distributions.kendalltau(means["here"], means["there"]).statistic)
                if len(means) > 2
                else stats.NAN
            )
            for strategy, gain in gains.items():
                over = gain - gains["random"]
                change = stats.describe((over["here"] - over["there"]).dropna())
                rows.append(
                    {"scale": config["scale"], "panel": name, "against": base, "labelled": labelled}
                    | {"strategy": strategy, "n": len(over.dropna()), "tau": tau, "change": change["mean"]}
                    | {f"gain_{key}": over[key].mean() for key in ("here", "there")}
                    | {key: change[key] for key in ("low", "high")}
                    | {f"rank_{key}": ranks.loc[strategy, key] for key in ("here", "there")}
                )
    return pd.DataFrame(rows, columns=RANKINGS)


def _prefixed(name: str, values: pd.Series) -> dict[str, float]:
    return {f"{name}_{key}": value for key, value in stats.describe(values).items()}
