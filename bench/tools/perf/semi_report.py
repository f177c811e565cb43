"""The speed of semi-supervised machinery in words and tables, from ssl.csv: a marked block of docs/speed.md."""

from pathlib import Path

import pandas as pd

from bench.core import csv
from bench.report import words
from bench.tools.perf import semi_ratios
from bench.tools.perf.quiet import FOREIGN
from bench.tools.perf.semi_ratios import FASTER, LARGE, PARTS, REFRESH, SHARE, STRONG, VIEWS, WEAK

REFRESHES = ("newton", "released", "plain loop")
EVERY = 10  # steps between two refreshes, by default
SOLVERS = ("eigvalsh", "eigvalsh, d x d", "scipy lobpcg", "torch lobpcg")


def speed(folder: Path) -> str:
    table = csv.read(folder / "ssl.csv")
    parts = [_steps(table), _views(table), _refreshes(table), _searches(table)]
    where = f"All numbers are of {table.processor.iloc[0]}, {table.measured_at.min()[:10]}."
    return "\n\n".join([*parts, where])


def _steps(table: pd.DataFrame) -> str:
    whole = table[table.what == "whole step"].set_index(semi_ratios.STEP)
    rows = []
    for case, shares in semi_ratios.shares(table).iterrows():
        images, seconds = whole.loc[case, ["count", "processor_seconds"]]
        size = (f"{1000 * seconds:.3g}", f"{images / seconds:,.0f}")
        rows.append((*_step(case), *size, *(f"{share:.1%}" for share in shares)))
    head = ("net", "views", "B", "mu", "step: ms", "images per second", *(f"{part}: share" for part in PARTS))
    both = semi_ratios.shares(table)[[WEAK, STRONG]].sum(axis=1)
    said = f"Views take {both.min():.1%} to {both.max():.1%} of a step; wanted: at most {SHARE:.0%}"
    return f"{words.table(head, rows)}\n\n{said}, {_met(both <= SHARE)}."


def _step(case: tuple) -> tuple[str, ...]:
    views, net, width, batch, mu = case
    return f"{net} {width:.0f}", views, f"{batch:.0f}", f"{mu:.0f}"


def _met(found: pd.Series) -> str:
    """How many of the cases have what is wanted."""
    return "met everywhere" if found.all() else f"met in {found.sum()} of {len(found)} cases"


def _views(table: pd.DataFrame) -> str:
    """Views per second, beside those by PIL."""
    rate = table.assign(rate=table["count"] / table.processor_seconds)
    rate = rate[rate.group == "step"].pivot(index=semi_ratios.STEP, columns="what", values="rate")
    times, rows = semi_ratios.views(table), []
    for case, row in rate.iterrows():
        cells = [f"{row[f'{what}{by}']:,.0f}" for what in (WEAK, STRONG) for by in ("", " by PIL")]
        rows.append((*_step(case)[1:], *cells, *(f"{value:.1f}" for value in times.loc[case])))
    cells = [f"{what} per second{by}" for what in (WEAK, STRONG) for by in ("", ", PIL")]
    head = ("views", "B", "mu", *cells, *(f"PIL / ours: {what}" for what in ("weak", "strong", "both")))
    said = f"PIL takes {_span(times.both)} times as long for both views of a step; wanted: at least {VIEWS} times"
    apart = f"For weak views it is {_span(times[WEAK])} times, for strong ones {_span(times[STRONG])} times."
    return f"{words.table(head, rows)}\n\n{said}, {_met(times.both >= VIEWS)}. {apart}"


def _span(values: pd.Series) -> str:
    return f"{values.min():.2g} to {values.max():.3g}"


def _refreshes(table: pd.DataFrame) -> str:
    seconds, rows = semi_ratios.seconds(table, "darp"), []
    alone = table[(table.group == "darp") & (table.threads == 1)].set_index([*semi_ratios.POOL, "what"])
    for case, row in seconds.iterrows():
        off = (alone.off[(*case, what)] for what in REFRESHES)
        rows.append(
            (
                *(f"{size:,.0f}" for size in case),
                *(f"{row[what]:.3g}" for what in REFRESHES),
                *(f"{row[what] / row['newton']:.1f}" for what in REFRESHES[1:]),
                *("" if pd.isna(each) else f"{each:.1g}" for each in off),
            )
        )
    head = [f"{what}: s" for what in REFRESHES] + [f"{what} / newton" for what in REFRESHES[1:]]
    head = ["rows", "classes", *head, *(f"{what}: off by" for what in REFRESHES)]
    largest, (classes, pool) = seconds.newton.iloc[-1], seconds.index[-1][::-1]
    shared = table[(table.group == "darp") & (table.threads > 1) & (table.what == "newton")].iloc[-1]
    star = "*" if shared.foreign > FOREIGN else ""
    sampled = ", ".join(
        f"{row['sample']:.0f} of {row['count']:.0f} rounds at {rows:,.0f} x {classes:.0f}"
        for (rows, classes, _), row in alone[alone["sample"] < alone["count"]].iterrows()
    )
    steps, (few, some) = semi_ratios.seconds(table, "step")["whole step"], seconds.index[0]
    step, case = steps.iloc[0], steps.index[0]
    within = ["within it" if time <= REFRESH else "beyond" for time in (largest, shared.seconds)]
    return (
        f"{words.table(head, rows)}\n\nAt {pool:,.0f} x {classes:.0f}, a refresh takes {largest:.2g} s with one "
        f"thread, and {shared.seconds:.2g}{star} s by the clock on {shared.threads:.0f} cores. Wanted on two cores: at "
        f"most {REFRESH:g} s; one thread is {within[0]}, the clock is {within[1]}. A star marks a clock that ran "
        f"while others used more than {FOREIGN:.0%} of the machine. Every {EVERY} steps, a refresh at {few:,.0f} x "
        f"{some:.0f} adds {seconds.newton.iloc[0] / EVERY / step:.0%} to a step of {case[0]} with B = {case[3]:.0f}. "
        f"The plain loop was timed on {sampled or 'all rounds'}; the time of all is extrapolated."
    )


def _searches(table: pd.DataFrame) -> str:
    some = table[table.group == "npc"].set_index([*semi_ratios.SEARCH, "what"])
    seconds, times, rows = semi_ratios.seconds(table, "npc"), semi_ratios.searches(table), []
    for case, row in seconds.iterrows():
        points, bought = case
        cells = [_timed(row[what], some["sample"].get((*case, what)), some["count"].max()) for what in SOLVERS]
        ratios = ["" if pd.isna(times.loc[case, what]) else f"{times.loc[case, what]:.3g}" for what in SOLVERS]
        rows.append((f"{points:.0f}", f"{points - bought:.0f}", f"{row['of_features']:.2g}", *cells, *ratios))
    head = ["N", "labelled", "ours: s", *(f"{what}: s" for what in SOLVERS), *(f"{what} / ours" for what in SOLVERS)]
    large = times[times.index.get_level_values("points") >= LARGE]
    errors = {what: some.off.xs(what, level="what") for what in SOLVERS[2:]}
    peers = [f"{what} was off by up to {off.max():.2g} (at N = {off.idxmax()[0]:.0f})" for what, off in errors.items()]
    return (
        f"{words.table(head, rows)}\n\nFrom N = {LARGE} on, eigvalsh of every N x N matrix takes "
        f"{_span(large['eigvalsh'])} times as long; wanted: at least {FASTER} times, "
        f"{_met(large['eigvalsh'] >= FASTER)}. Eigenvalues of the d x d matrices take "
        f"{_span(large['eigvalsh, d x d'].dropna())} times as long. The batch found was the argmax of the eigenvalues "
        f"in every case. As a share of the score, {' and '.join(peers)}."
    )


def _timed(seconds: float, sample: float, count: float) -> str:
    if pd.isna(seconds):
        return ""
    return f"{seconds:.3g}" + ("" if sample == count else f", from {sample:.0f} batches")
