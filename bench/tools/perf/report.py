"""Speed in words and tables, from results/perf/: marked blocks of the documents."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas as pd

from bench.core import csv
from bench.core.config import ROOT
from bench.tools.perf import semi_report
from bench.tools.perf.quiet import FOREIGN
from bench.tools.perf.ratios import CASE, KERNELS, PEERS, processors, ratios

PERF = ROOT / "results/perf"
SOLVED, LARGE = ("in place", "scipy"), 5000  # beside torch; rows of a kernel from which on a factor's time matters
APART = 1.1  # times: leads on two processors that differ by less are called alike


def titles(*names: str) -> list[str]:
    """The first two lines of a table."""
    return [_row(*names), "| --- " * len(names) + "|"]


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def kernel_speed(folder: Path = PERF) -> str:
    """In short: how many times as long the peers take, on which processor; what is slower than a peer."""
    table = csv.read(folder / "kernels.csv")
    found, names = ratios(table), processors(table)
    columns = {(name, deep): "convolutional nets" if deep else "fcn" for name in names for deep in (True, False)}
    lines = titles("peer", "kernel", "N", *(f"{names[name]}: {nets}" for (name, _), nets in columns.items()))
    for (peer, output, points), some in found.groupby(["peer", "output", "points"]):
        times = (some.time[(some.processor == name) & ((some.net != "fcn") == deep)] for name, deep in columns)
        lines.append(_row(peer, KERNELS[output], points, *map(_span, times)))
    behind = "; ".join(
        f"{_case(row)} on {names[row.processor]} ({row.contender} takes {row.time:.2f} times as long)"
        for row in found[found.time < 1].itertuples()
    )
    lines += ["", f"This engine is slower than a peer here: {behind}." if behind else "No peer is faster anywhere."]
    lines += ["", *_differences(found, names)]
    if table.engine.nunique() > 1:
        lines.append("The processors ran different versions of the engine, so a difference may come from either.")
    return "\n".join([*lines, "", *(_where(table[table.processor == name]) for name in names)])


def _span(times: pd.Series) -> str:
    if len(times) < 2:
        return "".join(f"{time:.3g}" for time in times)
    return f"{times.min():.1f} to {times.max():.1f} ({len(times)} nets)"


def _case(row: tuple) -> str:
    return f"{row.net}, {KERNELS[row.output]}, N = {row.points}"


def _differences(found: pd.DataFrame, names: dict[str, str]) -> Iterator[str]:
    """How the lead over torch.func at the fewest points differs between the first processor and each other."""
    few, (first, *others) = found.points.min(), names
    some = found[(found.peer == "torch.func") & (found.points == few) & (found.net != "fcn")]
    leads = some.pivot(index=["net", "output"], columns="processor", values="time").reindex(columns=list(names))

    def listed(rows: pd.DataFrame) -> str:
        cells = (f"{net} {KERNELS[output]} ({b:.2f} against {a:.2f})" for (net, output), a, b in rows.itertuples())
        return ", ".join(cells) or "no net"

    for other in others:
        pair, change = leads[[first, other]], leads[other] / leads[first]
        yield (
            f"At N = {few}, the lead over torch.func is smaller on {names[other]} than on {names[first]} at "
            f"{listed(pair[change < 1 / APART])}. It is larger at {listed(pair[change > APART])}. "
            f"Elsewhere the two differ by less than {APART - 1:.0%}."
        )


def _where(rows: pd.DataFrame) -> str:
    """Processor, time and engine; how fast, how steady and how quiet the machine was."""
    rounds = rows[rows.contender == "ours"].seconds_by_round.astype(str).str.split(expand=True).astype(float)
    apart = rounds.max(axis=1) / rounds.min(axis=1)
    return (
        f"- {rows.processor.iloc[0]}: measured from {rows.measured_at.min()} to {rows.measured_at.max()}, engine "
        f"{rows.engine.iloc[0]}. Its GEMM rate in float32 was {rows.gemm_gflops.min():.0f} to "
        f"{rows.gemm_gflops.max():.0f} GF/s. The slowest round took {apart.median():.2f} times as long as the fastest "
        f"in the median case, and {apart.max():.2f} times at most. Others used more than {FOREIGN:.0%} of the machine "
        f"in {(rows.foreign > FOREIGN).sum()} of {rows.seconds.count()} measurements."
    )


def kernel_speed_by_net(folder: Path = PERF) -> str:
    """Every case: seconds and memory, beside those of each peer."""
    table, lines = csv.read(folder / "kernels.csv"), []
    beside = ratios(table).set_index([*CASE, "peer"])[["time", "memory"]]
    heads = [f"{peer}: times as {what}" for peer in PEERS for what in ("long", "much memory")]
    for name in processors(table):
        rows = table[table.processor == name]
        lines += [f"{name}:", "", *titles("net", "kernel", "N", "O", "seconds", "GiB", "of the best GEMM rate", *heads)]
        for row in rows[rows.contender == "ours"].itertuples():
            case = [getattr(row, key) for key in CASE]
            times = beside.reindex([(*case, peer) for peer in PEERS]).to_numpy().ravel()
            cells = (f"{row.net} {row.width}", KERNELS[row.output], f"{row.points:,}", row.classes)
            cells += (f"{row.seconds:.3g}", f"{row.peak_gib:.1f}", f"{row.gemm_fraction:.0%}")
            lines.append(_row(*cells, *("" if pd.isna(time) else f"{time:.2f}" for time in times)))
        failed = (f"{row.contender} at {_case(row)} ({row.note})" for row in rows[rows.seconds.isna()].itertuples())
        lines += ["", f"Not timed: {'; '.join(failed) or 'none'}.", ""]
    sizes = table[table.classes == 10].drop_duplicates(["net", "width"]).sort_values(["net", "width"])
    counts = ", ".join(f"{row.net} {row.width} has {row.parameters:,.0f}" for row in sizes.itertuples())
    return "\n".join([*lines, f"The number after a net is its width. At O = 10, by parameters: {counts}."])


def lookahead_speed(folder: Path = PERF) -> str:
    """Scoring all candidates: the posterior form beside its alternatives, then at other sizes."""
    table = csv.read(folder / "lookahead.csv")
    growth = table.group.str.startswith("growth")
    lines = titles("contender", "L", "U", "O", "seconds", "timed on", "memory in U x U matrices")
    for row in pd.concat([table[~growth], table[growth]]).itertuples():
        timed = f"{row.sample:,.0f} candidates, extrapolated" if row.sample < row.candidates else "all candidates"
        cells = (row.labelled, f"{row.candidates:,}", row.outputs, f"{row.seconds:,.3g}", timed)
        lines.append(_row(row.contender, *cells, "" if pd.isna(row.matrices) else f"{row.matrices:.1f}"))
    seconds = table[~growth].set_index("contender").seconds
    ours, kernel, block, solve = seconds[["posterior, from f_L", "kernel blocks", "block formula", "re-solve"]]
    return "\n".join(lines) + (
        f"\n\nWith given kernel blocks, the posterior form (from f_L) is {block / ours:.0f} times as fast as the block "
        f"formula and {solve / ours:.0f} times as fast as the re-solve. With their time included, it is "
        f"{(kernel + block) / (kernel + ours):.1f} and {(kernel + solve) / (kernel + ours):.1f} times as fast, and "
        f"{seconds['retraining'] / (kernel + ours):,.0f} times as fast as retraining. BADGE by factors is "
        f"{seconds['badge, materialised'] / seconds['badge, by factors']:.1f} times as fast as BADGE with gradients "
        f"written out. All times are in float64 on {table.processor.iloc[0]}."
    )


def pntk_speed(folder: Path = PERF) -> str:
    """The in-place factor beside its peers; the phases of a measurement at every size. A star: others were at work."""
    table = csv.read(folder / "pntk.csv")
    table["text"] = [f"{row.seconds:.3g}{'*' * (row.foreign > FOREIGN)}" for row in table.itertuples()]
    solver, studies = table[table.group == "solver"], table[table.group != "solver"]
    wide = solver[solver.threads > 1].pivot(index=["dtype", "n"], columns="what", values=["text", "peak_gib"])
    alone = solver[solver.threads == 1].pivot(index=["dtype", "n"], columns="what", values="processor_seconds")
    time = alone[list(SOLVED)].div(alone.torch, axis=0).reindex(wide.index)
    extra = wide.peak_gib[list(SOLVED)].div(wide.peak_gib.torch, axis=0)
    ratios = [f"{what} / torch: {of}" for of in ("time of one thread", "memory") for what in SOLVED]
    lines = titles("dtype", "n", *(f"{what}: s" for what in (*SOLVED, "torch")), *ratios)
    for (dtype, n), some in wide.text.iterrows():
        cells = ["" if pd.isna(value) else f"{value:.2f}" for each in (time, extra) for value in each.loc[dtype, n]]
        lines.append(_row(dtype, f"{n:,.0f}", *some[[*SOLVED, "torch"]], *cells))
    phases = ("kernel", "cross block", "factor", "solve", "smallest eigenvalue")
    lines += ["", *titles("N", "O", "width", "kernel", *(f"{phase}: s" for phase in phases))]
    keys = ["points", "outputs", "width", "output"]
    sizes = studies.pivot(index=keys, columns="what", values="processor_seconds")
    for (points, outputs, width, output), some in sizes.iterrows():
        cells = (f"{points:,.0f}", f"{outputs:.0f}", f"{width:,.0f}", KERNELS[output])
        lines.append(_row(*cells, *(f"{some[phase]:.2g}" for phase in phases)))
    clock = solver[solver.threads > 1].pivot(index=["dtype", "n"], columns="what", values="seconds")
    clock = clock.div(clock.torch, axis=0)
    time, clock, extra = (each["in place"][wide.index.get_level_values("n") >= LARGE] for each in (time, clock, extra))
    return "\n".join(lines) + (
        f"\n\nFrom n = {LARGE:,} on, the in-place factor takes {time.min():.2f} to {time.max():.2f} times as long as "
        f"torch's with one thread, and {clock.min():.2f} to {clock.max():.2f} times by the clock on all cores. It "
        f"takes {extra.min():.2f} to {extra.max():.2f} of torch's memory beside the kernel. A star marks a clock that "
        f"ran while others used more than {FOREIGN:.0%} of the machine. All numbers are of {table.processor.iloc[0]}, "
        f"{table.measured_at.min()[:10]}."
    )


BLOCKS = {
    "kernel-speed": kernel_speed,
    "kernel-speed-by-net": kernel_speed_by_net,
    "lookahead-speed": lookahead_speed,
    "pntk-speed": pntk_speed,
    "ssl-speed": partial(semi_report.speed, PERF),
}
