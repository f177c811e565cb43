"""What the runs say of the thesis' claims about look-ahead (claims.csv). Quantities:

    area, final   accuracy of a minus that of b, over the whole curve or after the last cycle, paired by seed
    cycle-3       accuracy of a after three queries; only comparable in the thesis' own setting
    time          query time of a over that of b
    same          share of the queries in which a and b buy the same images: an identity, 1 in every run or it is wrong

`b` = `best` is the panel's best other strategy by area; a panel with an asterisk is each that matches. Where the thesis
says "the same", "comparable" or "about", the range is this suite's: within a point of accuracy, within a factor of two
in time. A panel on other images than the thesis' is not comparable.
"""

from fnmatch import fnmatch

import pandas as pd

from bench.core.study import texts
from bench.report.claims import Measured
from bench.studies import lookahead
from bench.studies.lookahead import departures, times
from bench.studies.lookahead.curves import diverged, of_setting


def measure(claim: dict, frames: dict[str, pd.DataFrame], config: dict) -> list[Measured]:
    """One for every panel that the claim is about and that has both its arms."""
    panels = lookahead.panels(config)
    pairs = [(name, claim["panel_b"] or name) for name in panels if fnmatch(name, claim["panel"])]
    return [
        _measured(claim, panel, panel_b, frames, config)
        for panel, panel_b in pairs
        if _has(panels, panel, claim["a"]) and _has(panels, panel_b, claim["b"])
    ]


def _has(panels: dict, panel: str, arm: str) -> bool:
    """Whether a panel has one of the strategies that may stand for an arm; any panel has its `best`, or none at all."""
    return panel in panels and (arm in ("", "best") or not set(arm.split()).isdisjoint(panels[panel]["strategies"]))


def _measured(claim: dict, panel: str, panel_b: str, frames: dict, config: dict) -> Measured:
    panels, (quantity, _, cycle) = lookahead.panels(config), claim["quantity"].partition("-")
    curves, finished = frames["lookahead-curves"], frames["lookahead-runs"]
    here, there = panels[panel], panels[panel_b]
    if quantity == "time":
        found = _time(claim, of_setting(frames["lookahead-queries"], here))
    elif quantity == "same":
        found = _same(claim, of_setting(frames["lookahead-bought"], here))
    elif quantity == "cycle":
        rows = of_setting(curves, here)
        mine = rows[(rows["strategy"] == claim["a"]) & (rows["cycle"] == int(cycle))]
        again = _diverged(diverged(rows, claim["a"]))
        found = Measured(mine["test_accuracy"], arms=f"`{claim['a']}`", unit="%", data=_data(mine), note=again)
    else:
        ours, theirs = of_setting(finished, here), of_setting(finished, there)
        b, why = claim["b"], ""
        if b == "best":
            rivals = theirs[theirs["strategy"].isin(set(there["strategies"]) - {claim["a"]})]
            areas = rivals.groupby("strategy")["area"].mean()
            if areas.empty:
                return Measured([], setting=panel)
            b, why = areas.idxmax(), f"the best of {', '.join(f'`{name}`' for name in areas.index)}"
        column = {"area": "area", "final": "test_accuracy"}[quantity]
        mine = ours[ours["strategy"] == claim["a"]].set_index("seed")[column]
        other = theirs[theirs["strategy"] == b].set_index("seed")[column]
        again = diverged(of_setting(curves, here), claim["a"]) + diverged(of_setting(curves, there), b)
        note = "; ".join(filter(None, [why, _diverged(again)]))
        arms = f"`{claim['a']}` minus `{b}`"
        found = Measured((mine - other).dropna(), arms=arms, data=_data(ours), note=note)
    departing = [departure for departure in departures(config) if departure.panel in (panel, panel_b)]
    said = texts(departing)
    found.setting = panel
    found.departures = "; ".join(dict.fromkeys(said[name] for name in (panel, panel_b) if name in said))
    stand_in = any(departure.what == "dataset" for departure in departing)
    found.comparable = not stand_in and not (quantity == "cycle" and departing)
    return found


def _time(claim: dict, queries: pd.DataFrame) -> Measured:
    """Of the strategies that stand for a (naive, or a timed sample of it), the first that has run."""
    names = claim["a"].split()
    a = next((name for name in names if name in set(queries["strategy"])), names[0])
    shown = queries[queries["strategy"].isin([a, claim["b"]])]
    note = "extrapolated from a sample of the candidates" if shown["extrapolated"].any() else ""
    arms = f"`{a}` over `{claim['b']}`"
    return Measured(times.log_ratios(queries, a, claim["b"]), arms=arms, unit="times", data=_data(shown), note=note)


def _same(claim: dict, bought: pd.DataFrame) -> Measured:
    a, b = (bought[bought["strategy"] == claim[arm]].set_index(["seed", "cycle"])["fingerprint"] for arm in "ab")
    both = pd.concat([a, b], axis=1, join="inner")
    equal = (both.iloc[:, 0] == both.iloc[:, 1]).groupby("seed").mean()
    return Measured(equal, arms=f"`{claim['a']}` and `{claim['b']}`", unit="%", data=_data(bought), exact=True)


def _diverged(count: int) -> str:
    return f"{count} diverged" if count else ""


def _data(rows: pd.DataFrame) -> str:
    return rows["data"].iloc[0] if len(rows) else ""
