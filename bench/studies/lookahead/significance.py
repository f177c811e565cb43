"""Significance tests of the look-ahead study: per panel, over all settings, and the thesis' Table 2.1."""

import pandas as pd

from bench.report import stats
from bench.studies.lookahead.curves import SETTING, by_panel, complete, diverged, runs

BLOCKS = {"cycles": "cycle", "seeds": "seed"}  # the first is how the thesis' p of 0.0045 can come about, see `tests`
# Table 2.1 tests the look-ahead methods of fig. 2.1b without the random baselines drawn there.
TABLE_2_1 = {"name": "thesis-2.1", "panel": "thesis-2.1b", "strategies": ["ntk", "one-step", "infinite", "gp"]}
ALPHA = 0.05

NUMBERS = ["statistic", "p", "p_holm", "effect", "mean_difference"]
TESTS = [
    *("scale", "panel", "data", "blocks", "test", *stats.PAIR, "blocks_n", "strategies_n", "seeds_n", "diverged"),
    *(*NUMBERS, "note"),
]
IMPROVEMENT = ["scale", "panel", "data", *stats.PAIR, "n_a", "n_b", "probability", "low", "high"]
RANKS = ["scale", "kind", *stats.PAIR, "value", "blocks_n", "settings_n", "seeds_n", "diverged", "data", "note"]


def tests(curves: pd.DataFrame, panels: dict) -> pd.DataFrame:
    """Friedman's test per panel, then every pair by paired t-test (as thesis 2.4) and by Nemenyi's.

    The thesis does not say what its blocks were. Over its four methods p = 0.0045 cannot come from six untied blocks,
    the number of seeds, but can from five or ten, so `cycles` (mean over seeds at a cycle) is the reading of choice;
    `seeds` (mean over the cycles of a seed) stands beside it because cycles of one run are not independent. Cycle 0 is
    no block: nothing has been queried by then, so that strategies of one network tie by construction.
    Only seeds that all the panel's strategies have finished take part. Table 2.1 counts as a panel of its own.
    """
    if TABLE_2_1["panel"] in panels:
        panels = panels | {TABLE_2_1["name"]: panels[TABLE_2_1["panel"]] | {"strategies": TABLE_2_1["strategies"]}}
    parts, every = [], dict(by_panel(curves, panels))
    for panel, shown in by_panel(complete(curves), panels):
        present = [name for name in panels[panel]["strategies"] if name in set(shown["strategy"])]
        absent = [name for name in panels[panel]["strategies"] if name not in present]
        seeds = set.intersection(*(set(group["seed"]) for _, group in shown.groupby("strategy")))
        shown = shown[shown["seed"].isin(seeds)]
        for kind, block in BLOCKS.items():
            # Rounded, for equal accuracies summed in another order must stay ties.
            counted = shown[shown["cycle"] > 0] if block == "cycle" else shown
            blocks = counted.pivot_table(index=block, columns="strategy", values="test_accuracy").round(12)
            blocks = blocks.reindex(columns=present)
            whole = stats.friedman(blocks)
            if absent:
                whole["note"] = "; ".join(filter(None, [whole["note"], f"no finished cell of {', '.join(absent)}"]))
            part = pd.concat(
                [
                    pd.DataFrame([whole]).assign(test="friedman", strategy_a="", strategy_b=""),
                    stats.paired_tests(blocks).assign(test="paired-t"),
                    stats.nemenyi(blocks).assign(test="nemenyi"),
                ]
            )
            sizes = {"blocks_n": len(blocks), "strategies_n": len(present), "seeds_n": len(seeds)}
            sizes["diverged"] = diverged(every[panel], *present)
            origin = {"scale": curves["scale"].iloc[0], "panel": panel, "data": shown["data"].iloc[0]}
            parts.append(part.assign(blocks=kind, **origin, **sizes))
    table = pd.concat(parts, ignore_index=True)[TESTS] if parts else pd.DataFrame(columns=TESTS)
    return table.astype(dict.fromkeys(NUMBERS, float))  # columns that no test of a part fills would become objects


def ranks(curves: pd.DataFrame, panels: dict) -> pd.DataFrame:
    """Average ranks by area over blocks of (setting, seed), with Friedman's and Nemenyi's p, in one long table.

    Settings count in which the panels compare at least three strategies, by a recipe as it is (not `l2+lr=0.3`); the
    strategies ranked are those that all of these settings share, in blocks where each has finished. Seeds of one
    setting are not independent of each other, so the tests are surer of themselves than they should be; over few
    settings there is no other way to have blocks.
    """
    shown: dict[tuple, set[str]] = {}
    for panel in panels.values():
        shown.setdefault(tuple(panel[key] for key in SETTING), set()).update(panel["strategies"])
    shown = {setting: names for setting, names in shown.items() if len(names) > 2 and "+" not in setting[-1]}
    shared = set.intersection(*shown.values()) if shown else set()
    ranked = runs(curves)
    ranked = ranked[ranked["strategy"].isin(shared) & pd.MultiIndex.from_frame(ranked[SETTING]).isin(list(shown))]
    blocks = ranked.pivot(index=[*SETTING, "seed"], columns="strategy", values="area").dropna().round(12)
    if blocks.empty:
        return pd.DataFrame(columns=RANKS)
    whole, nemenyi = stats.friedman(blocks), stats.nemenyi(blocks)
    table = pd.concat(
        [
            pd.DataFrame([{"kind": "friedman", "strategy_a": "", "value": whole["p"], "note": whole["note"]}]),
            stats.average_ranks(blocks).rename_axis("strategy_a").reset_index(name="value").assign(kind="rank"),
            nemenyi.assign(kind="nemenyi", value=nemenyi["p"]),
        ]
    )
    counted = ranked.set_index([*SETTING, "seed"]).loc[blocks.index]
    return table.assign(
        scale=counted["scale"].iloc[0],
        blocks_n=len(blocks),
        settings_n=len(blocks.groupby(SETTING)),
        seeds_n=blocks.index.get_level_values("seed").nunique(),
        diverged=counted["diverged"].sum(),
        data="; ".join(sorted(counted["data"].unique())),
    ).fillna({"strategy_b": "", "note": ""})[RANKS]


def improvement(curves: pd.DataFrame, panels: dict) -> pd.DataFrame:
    """How probable it is that a run of a strategy beats a run of `random`, and of `ntk`, by area, per panel."""
    rows = []
    for panel, shown in by_panel(runs(curves), panels):
        areas = {name: rows["area"].to_numpy(float) for name, rows in shown.groupby("strategy")}
        about = {"scale": shown["scale"].iloc[0], "panel": panel, "data": shown["data"].iloc[0]}
        for rival in ("random", "ntk"):
            for name in areas if rival in areas else ():
                if name != rival:
                    found = stats.probability_of_improvement(areas[name], areas[rival])
                    sizes = {"n_a": len(areas[name]), "n_b": len(areas[rival])}
                    rows.append(about | {"strategy_a": name, "strategy_b": rival} | sizes | found)
    return pd.DataFrame(rows, columns=IMPROVEMENT)


def thesis_2_1(tests: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """The thesis' Table 2.1 beside the measured p-values; `verdict` is on cycles, `verdict_seeds` on seeds.

    As in the thesis, p is not corrected for the number of pairs. What is significant there and here, for the same
    strategy, or neither there nor here, is `supported`. Significant there but not here is `inconclusive`: fewer or
    noisier runs do that. Significant for the other strategy, or only here, is `not supported`.
    """
    measured = tests[tests["panel"] == TABLE_2_1["name"]]
    # Friedman's test of only some of the four is another test.
    fewer = measured["strategies_n"] < len(TABLE_2_1["strategies"])
    measured = measured[~(fewer & (measured["test"] == "friedman"))]
    table = published.rename(columns={"p": "p_published"})
    for kind in BLOCKS:
        found = measured[measured["blocks"] == kind].set_index(["test", *stats.PAIR])
        found = found.reindex(pd.MultiIndex.from_frame(published[["test", *stats.PAIR]]))
        for column in ("p", "mean_difference", "blocks_n"):
            table[f"{column}_{kind}"] = found[column].to_numpy(dtype=float)
    panel = tests[tests["panel"] == TABLE_2_1["panel"]]
    table = table.assign(**{key: "; ".join(panel[key].unique()) for key in ("scale", "data")})
    table["verdict"] = [_verdict(row, "cycles") for _, row in table.iterrows()]
    table["verdict_seeds"] = [_verdict(row, "seeds") for _, row in table.iterrows()]
    return table


def _verdict(row: pd.Series, kind: str) -> str:
    p, difference = row[f"p_{kind}"], row[f"mean_difference_{kind}"]
    if pd.isna(p):
        return "not measured"
    if p >= ALPHA:
        return "inconclusive" if row["p_published"] < ALPHA else "supported"
    leader = row["strategy_a"] if difference > 0 else row["strategy_b"]
    same = row["p_published"] < ALPHA and row["better"] in ("", leader)
    return "supported" if same else "not supported"
