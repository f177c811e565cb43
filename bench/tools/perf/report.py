"""The kernel engine's speed in words and tables, from results/perf/: blocks of README.md."""

import math
from pathlib import Path

import pandas as pd

from bench.core.config import ROOT
from bench.tools.perf.bars import DEEP, PEERS, PRODUCTS, REST, behind, spreads
from bench.tools.perf.figure import CASE, MODES
from bench.tools.perf.quiet import FOREIGN

PERF = ROOT / "results/perf"
VERDICTS = {
    "yes": "met in every round",
    "undecided": "met in some rounds only",
    "no": "missed",
    "peer failed": "without a result of the peer",
    "not measured": "not measured",
}


def titles(*names: str) -> list[str]:
    """The first two lines of a table."""
    return [f"| {' | '.join(names)} |", "| --- " * len(names) + "|"]


def kernel_speed() -> str:
    """Seconds and memory beside those of each peer's fastest implementation."""
    rows = pd.read_csv(PERF / "kernels.csv")
    ours = rows[(rows.contender == "ours") & rows.group.isin(("peers", "thesis size"))].sort_values(CASE)
    beside = {peer: _beside(rows, names) for peer, names in PEERS.items()}
    columns = [f"{peer}: times as {what}" for peer in PEERS for what in ("long", "much memory")]
    lines = titles("net", "kernel", "N", "seconds", "GiB", *columns, "of the best GEMM rate")
    for row in ours.set_index(CASE).itertuples():
        net, width, points, output = row.Index
        cells = [f"{net} {width}", MODES[output], f"{points:,}", f"{row.seconds:.3g}", f"{row.peak_gib:.1f}"]
        for ratios in beside.values():
            found = row.group == "peers" and row.Index in ratios.index
            cells += [f"{ratio:.2f}" for ratio in ratios.loc[row.Index]] if found else ["", ""]
        lines.append(f"| {' | '.join([*cells, f'{row.gemm_fraction:.0%}'])} |")
    return "\n".join([*_in_short(PERF), "", *lines, "", *_circumstances(rows)])


def kernel_elsewhere() -> str:
    """The same in short from other machines and earlier runs, each with a folder of its own."""
    parts = []
    for folder in sorted(path.parent for path in PERF.glob("*/kernels.csv")):
        where = _where(pd.read_csv(folder / "kernels.csv"))
        lines = [*_in_short(folder), "", f"{where} ([all]({folder.relative_to(ROOT)}/kernels.csv))."]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _beside(rows: pd.DataFrame, contenders: tuple[str, ...]) -> pd.DataFrame:
    """By case: seconds and memory of the fastest of these contenders over this engine's."""
    peers = rows[rows.group == "peers"]
    some = peers[peers.contender.isin(contenders) & peers.seconds.notna()]
    best = some.loc[some.groupby(CASE).seconds.idxmin()].set_index(CASE)
    ours = peers[peers.contender == "ours"].set_index(CASE)
    return (best[["seconds", "peak_gib"]] / ours[["seconds", "peak_gib"]]).dropna()


def _in_short(folder: Path) -> list[str]:
    """A table of the least and the largest ratios over convolutional nets, and how many targets are met."""
    rows, bars = (pd.read_csv(folder / f"{name}.csv") for name in ("kernels", "kernels-bars"))
    lines = titles("convolutional nets", "kernel", "N", "times as long", "times as much memory", "nets")
    for peer, names in PEERS.items():
        ratios = _beside(rows, names).query("net in @DEEP").reset_index()
        for (output, n), some in ratios.groupby(["output", "points"]):
            spans = (f"{some[what].min():.1f} to {some[what].max():.1f}" for what in ("seconds", "peak_gib"))
            lines.append(f"| {peer} | {MODES[output]} | {n} | {' | '.join(spans)} | {len(some)} of {len(DEEP)} |")
    counts = bars.met.value_counts()
    words = "; ".join(f"{counts[met]} {word}" for met, word in VERDICTS.items() if met in counts)
    return [*lines, "", f"Of {len(bars)} targets: {words}."]


def _where(rows: pd.DataFrame) -> str:
    """On which machine, when, of which engine, and how fast and how quiet the machine was."""
    rates, products = rows.gemm_gflops.dropna(), rows[rows.contender == PRODUCTS]
    speed = f"its float32 GEMM rate, taken beside each case, was {rates.min():.0f} to {rates.max():.0f} GF/s"
    if len(products):
        in_a_row = products.gflop / products.seconds
        speed += f", and {in_a_row.min():.0f} to {in_a_row.max():.0f} GF/s over as many flops as N = 1,000 takes"
    marked = f"{(rows.foreign > FOREIGN).sum()} of {rows.seconds.notna().sum()} measurements"
    when = f"from {rows.measured_at.min()} to {rows.measured_at.max()}, engine {rows.engine[0]}"
    return f"On {rows.processor[0]}, {when}; {speed}; in {marked} others used more than {FOREIGN:.0%} of the machine"


def _circumstances(rows: pd.DataFrame) -> list[str]:
    apart = spreads(rows)
    spread = f"Times of this engine in rounds of one case lay apart by a factor of {apart.median():.2f} in the median"
    faster = "; ".join(
        f"{row.contender} at {row.net}, {MODES[row.output]}, N = {row.points}, {row.ratio:.2f} times as long"
        for row in behind(rows).itertuples()
    )
    failed = "; ".join(
        f"{row.contender} at {row.net}, {MODES[row.output]}, N = {row.points}: {row.note.removesuffix('.')}"
        for row in rows[rows.note.notna()].itertuples()
    )
    sizes = rows[rows.group == "peers"].drop_duplicates(["net", "width"])
    parameters = ", ".join(f"{row.net} {row.width} has {row.parameters:,.0f}" for row in sizes.itertuples())
    return [
        *(f"The number after a net is its width; of parameters {parameters}.", ""),
        f"{_where(rows)}. {spread}, by {apart.max():.2f} at most.",
        *("", f"Faster than this engine: {faster or 'none'}.", "", f"Not timed: {failed or 'none'}."),
    ]


def kernel_bars() -> str:
    """The targets of the engine, what it reached, and what is in the way."""
    lines = titles(
        *("net", "kernel", "N", "against", "target", "speed-up", "in rounds", "at GEMM speed", "products alone"),
        *("operations alone", "memory", "met", "limit"),
    )
    for row in pd.read_csv(PERF / "kernels-bars.csv").itertuples():
        limit = row.against == PRODUCTS
        memory = f"{row.memory:.1f} GiB" if limit else f"{row.memory:.2f}x" if pd.notna(row.memory) else ""
        wanted = f"{row.wanted:g}x"
        if pd.notna(row.wanted_memory):
            wanted += f", {row.wanted_memory:g} GiB" if limit else f", {row.wanted_memory:g}x memory"
        speeds = (f"{speed:.1f}x" for speed in (row.at_gemm_speed, row.products_alone, row.operations_alone))
        within = f"{row.low:.2f}x to {row.high:.2f}x" * (row.rounds > 0)
        cells = (wanted, f"{'> ' * (row.bound is True)}{row.had:.2f}x", within)
        cells = (*cells, *speeds, memory) if pd.notna(row.had) else (wanted, *[""] * 6)
        met = f"in {row.rounds_met:.0f} of {row.rounds:.0f} rounds" if row.met == "undecided" else row.met
        case = f"| {row.net} | {MODES[row.output]} | {row.points:,} | {row.against}"
        lines.append(f"{case} | {' | '.join(cells)} | {met} | {'' if pd.isna(row.limit) else row.limit} |")
    return "\n".join(lines)


def kernel_profiles() -> str:
    """Where the engine's time goes."""
    rows = pd.read_csv(PERF / "kernels.csv")
    ours = rows[(rows.contender == "ours") & rows.group.isin(("peers", "thesis size"))].sort_values(CASE)
    parts, best = ["convolutions", "batched_products", "products", *REST], rows.gemm_gflops.max()
    lines = titles("net", "kernel", "N", *(part.replace("_", " ") for part in parts))
    for row in ours.itertuples():
        cells = []
        for part in parts:
            share, rate = getattr(row, part), getattr(row, f"{part}_gflops", math.nan) / best
            cells.append(f"{share:.0%}" * pd.notna(share) + f" at {rate:.0%}" * pd.notna(rate))
        lines.append(f"| {row.net} {row.width} | {MODES[row.output]} | {row.points:,} | {' | '.join(cells)} |")
    return "\n".join(lines)
