"""What the kernel engine is meant to reach, beside what it reached: ratios within one case."""

import pandas as pd

DEEP = ("convnet", "resnet18", "wrn-16", "wrn-28")
PEERS = {"neural-tangents": ("neural-tangents 1", "neural-tangents 3"), "torch.func": ("torch.func",)}
PRODUCTS = "matrix products"  # a contender that does as many flops, all in products of large matrices: the GEMM limit

# (nets, output, N, peer, how many times as fast at least, most memory as a share of the peer's, or GiB beside PRODUCTS)
BARS = [
    (DEEP, "full", 32, "neural-tangents", 2.5, None),
    (DEEP, "full", 32, "torch.func", 1.6, None),
    (DEEP, "full", 256, "neural-tangents", 4.0, 0.5),
    (DEEP, "pseudo", 32, "neural-tangents", 3.5, None),
    (DEEP, "pseudo", 256, "neural-tangents", 3.5, None),
    (DEEP, "pseudo", 32, "torch.func", 1.0, None),
    (DEEP, "pseudo", 256, "torch.func", 1.0, None),
    (("fcn",), "full", 256, "neural-tangents", 4.0, None),
    (("fcn",), "full", 32, "neural-tangents", 1.0, None),
    (("convnet", "resnet18"), "full", 1000, PRODUCTS, 0.8, 8.0),
]
REST = ("other_operations", "overhead")  # of the time, what is not products: torch's other operations, and the rest


def bars(table: pd.DataFrame) -> pd.DataFrame:
    """One row per bar and net: the ratio wanted, the ratio had against the peer's best implementation, and whether.

    `had` is of the fastest turns; `low` and `high` are the least and the largest ratio, that one and those within a
    round. `met` is yes if all of them meet the bar, no if none does, else `undecided`, in `rounds_met` of `rounds`;
    `peer failed` where none of its implementations got through, or `not measured`.
    `at_gemm_speed` is what the ratio would be if all of this engine's flops ran at the machine's own matrix-product
    rate: how far away a bar is, and whether any tuning of the same algorithm could reach it. `products_alone`, what it
    would be if products and convolutions took the time they take, and nothing else did; `operations_alone`, if nothing
    took time but torch's operations, sums, copies and elementwise ones included. `limit`: what keeps a bar from being
    met in every round.
    """
    rows, fraction = [], fractions(table)
    cases = table[table.group.isin(("peers", "thesis size"))]
    for wanted_nets, output, points, peer, ratio, share in BARS:
        for net in wanted_nets:
            case = cases[(cases.net == net) & (cases.output == output) & (cases.points == points)]
            ours = _fastest(case[case.contender == "ours"])
            peers = case[case.contender.isin(PEERS.get(peer, (peer,)))]
            best = _fastest(peers)
            row = {
                "net": net,
                "output": output,
                "points": points,
                "against": peer,
                "wanted": ratio,
                "wanted_memory": share,
            }
            if ours is not None and best is not None:
                row |= {"had": best.seconds / ours.seconds, "memory": ours.peak_gib}
                row["memory"] /= 1 if peer == PRODUCTS else best.peak_gib
                row["bound"] = best.seconds == best.at_least  # the peer was stopped: it is at least so much slower
                whole = rounds_of(peers.loc[[best.name]]).min().notna()  # where its best was not disturbed
                mine = rounds_of(case[case.contender == "ours"]).min()
                row |= _in_rounds(ratio, rounds_of(peers).min().where(whole) / mine, row["had"])
                row["at_gemm_speed"] = row["had"] / fraction[ours.name]
                row |= _without(row["had"], ours)
            failed = ours is not None and best is None and len(peers)
            row["met"] = "peer failed" if failed else _met(row, share is None or row.get("memory", 1) <= share)
            rows.append(row | {"limit": _limit(row)})
    return pd.DataFrame(rows)


def rounds_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Seconds of each measurement in each round, (rows, rounds)."""
    return rows.seconds_by_round.astype(str).str.split(expand=True).astype(float)


def _in_rounds(wanted: float, ratios: pd.Series, had: float) -> dict[str, float]:
    """From which to which ratio rounds and fastest turns went, and in how many rounds the one wanted was had."""
    ratios = ratios.dropna()
    low, high = (function([had, *ratios]) for function in (min, max))
    return {"low": low, "high": high, "rounds": len(ratios), "rounds_met": int((ratios >= wanted).sum())}


def _without(had: float, ours: pd.Series) -> dict[str, float]:
    """What would be had without what is not products, and without what is not operations of torch."""
    operations = 1 - ours.overhead
    return {"products_alone": had / (operations - ours.other_operations), "operations_alone": had / operations}


def spreads(table: pd.DataFrame) -> pd.Series:
    """Of every kernel of this engine with several whole rounds: the longest time of a round over the shortest."""
    times = rounds_of(table[table.contender == "ours"])
    return (times.max(axis=1) / times.min(axis=1))[times.count(axis=1) > 1]


def behind(table: pd.DataFrame) -> pd.DataFrame:
    """Contenders that were faster than this engine, with `ratio`, their time over this engine's."""
    case = ["net", "width", "points", "output", "classes"]
    peers = table[table.group == "peers"]
    ours = peers[peers.contender == "ours"].set_index(case).seconds.rename("ours")
    ratio = peers.join(ours, on=case).eval("seconds / ours")
    return peers.assign(ratio=ratio)[ratio < 1]


def fractions(table: pd.DataFrame) -> pd.Series:
    """Each measurement's flops at the best matrix-product rate seen in the whole run, over its time.

    The rate taken beside a measurement, `gemm_gflops`, differs by a third within minutes on a shared machine; the best
    one is the machine's limit.
    """
    return table.gflop / table.gemm_gflops.max() / table.seconds


def _fastest(rows: pd.DataFrame) -> pd.Series | None:
    """The row of least seconds; a run that was stopped counts as long as it was let run."""
    rows = rows.assign(seconds=rows["seconds"].fillna(rows["at_least"].astype(float))).dropna(subset=["seconds"])
    return rows.loc[rows.seconds.idxmin()] if len(rows) else None


def _met(row: dict, small: bool) -> str:
    if pd.isna(row.get("had")):
        return "not measured"
    if small and row["low"] >= row["wanted"]:
        return "yes"
    if row.get("bound"):
        return "not measured"  # at least so much slower: no proof of a miss
    return "no" if not small or row["high"] < row["wanted"] else "undecided"


def _limit(row: dict) -> str:
    """What keeps a bar from being met: memory, or the first of these that would have to give."""
    if row["met"] not in ("no", "undecided") or pd.isna(row["products_alone"]):
        return ""
    if row["had"] >= row["wanted"]:
        return "memory" if row["met"] == "no" else "the machine's noise"
    if row["at_gemm_speed"] < row["wanted"]:
        return "the machine's GEMM rate"
    if row["products_alone"] < row["wanted"]:
        return "torch's products"
    return "torch's other operations" if row["operations_alone"] < row["wanted"] else "overhead"
