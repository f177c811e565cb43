"""The kernel engine's speed as a figure: beside each peer, in memory, as a share of the machine's limit; its growth."""

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report import style as _style
from bench.tools.perf.bars import rounds_of

SHOWN = {
    "torch.func": ("#0072B2", "s", "torch.func"),
    "neural-tangents 1": ("#D55E00", "^", "neural-tangents, Jacobian contraction"),
    "neural-tangents 3": ("#E69F00", "v", "neural-tangents, structured derivatives"),
}
CASE = ["net", "width", "points", "output"]
MODES = {"full": "eNTK", "pseudo": "pNTK"}
GROWTH = {
    "growth in N": ("points", "points N"),
    "growth in O": ("classes", "outputs O"),
    "growth in width": ("width", "k"),
}
OURS = "#009E73"


def draw(table: pd.DataFrame) -> Figure:
    with mpl.rc_context(_style.STYLE):
        figure = Figure(figsize=(_style.TEXT_WIDTH, 5.8), layout="constrained")
        upper, lower = figure.subfigures(2, 1, height_ratios=(2.4, 1))
        ratios, memory, share = upper.subplots(1, 3, sharey=True, width_ratios=(2, 1, 0.7))
        peers = table[table.group == "peers"]
        cases = list(peers[peers.contender == "ours"].groupby(CASE).groups)
        _ratios(ratios, peers, cases)
        _memory(memory, peers, cases)
        _share(share, peers[peers.contender == "ours"], cases)
        if len(peers):
            upper.legend(*memory.get_legend_handles_labels(), loc="outside upper center", ncols=2)
        for axes, (group, (column, label)) in zip(lower.subplots(1, 3), GROWTH.items(), strict=True):
            _growth(axes, table, group, column, label)
        return figure


def _ratios(axes: Axes, table: pd.DataFrame, cases: list[tuple]) -> None:
    """A row per case; right of the line, the engine is faster. Bars span the rounds in which neither was disturbed."""
    ours = table[table.contender == "ours"].set_index(CASE)
    for name, (colour, marker, _) in SHOWN.items():
        peer = table[(table.contender == name) & table.seconds.notna()].set_index(CASE)
        both = peer.index.intersection(ours.index, sort=False)
        if len(both):
            rows = [cases.index(case) for case in both]
            within = rounds_of(peer.loc[both]) / rounds_of(ours.loc[both])
            axes.hlines(rows, within.min(axis=1), within.max(axis=1), color=colour, linewidth=1)
            axes.plot(peer.seconds[both] / ours.seconds[both], rows, marker, color=colour, markersize=4)
    axes.axvline(1, color="0.2", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    names = [f"{net} {width}, {MODES[o]}, N = {n}" for net, width, n, o in cases]
    axes.set_yticks(
        range(len(cases)), [f"{name}: {ours.seconds[case]:.2g} s" for name, case in zip(names, cases, strict=True)]
    )
    axes.set_ylim(len(cases) - 0.4, -0.6)
    axes.set_xlabel("time of the peer /\ntime of this engine")


def _memory(axes: Axes, table: pd.DataFrame, cases: list[tuple]) -> None:
    """Peak memory of everyone's process."""
    for name, (colour, marker, label) in (SHOWN | {"ours": (OURS, "o", "this engine")}).items():
        peaks = table[(table.contender == name) & table.peak_gib.notna()].set_index(CASE).peak_gib
        peaks = peaks[peaks.index.isin(cases)]
        axes.plot(peaks, [cases.index(case) for case in peaks.index], marker, color=colour, label=label, markersize=4)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("peak memory\n(GiB)")


def _share(axes: Axes, ours: pd.DataFrame, cases: list[tuple]) -> None:
    """What the engine's flops would take at the machine's best rate of matrix products, over its time."""
    rows = [cases.index(case) for case in ours.set_index(CASE).index]
    axes.barh(rows, 100 * ours.gemm_fraction, color=OURS, height=0.6)
    axes.set_xlim(0, 100)
    axes.set_xlabel("of the best\nGEMM rate (%)")


def _growth(axes: Axes, table: pd.DataFrame, group: str, column: str, label: str) -> None:
    """Cases of a growth, and of those with peers the ones that belong to it."""
    rows = table[table.group == group]
    fixed = [key for key in (*CASE, "classes") if key != column]
    peers = table[(table.group == "peers") & (table.contender == "ours")]
    rows = pd.concat([rows, peers.merge(rows[fixed].drop_duplicates(), on=fixed)])
    for output, some in rows.groupby("output"):
        some = some.sort_values(column)
        axes.plot(some[column], some.seconds, "o-", label=MODES[output], markersize=3)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xticks(sorted(rows[column].unique()), minor=False)
    axes.set_xlabel(f"{rows.net.iloc[0]}: {label}" if len(rows) else label)
    axes.set_ylabel("seconds" if column == "points" else "")
    if len(rows):
        axes.legend()
