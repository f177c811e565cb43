"""From the table of kernels to ratios: each peer's fastest implementation over this engine."""

import pandas as pd

PEERS = {"torch.func": ("torch.func",), "neural-tangents": ("neural-tangents 1", "neural-tangents 3")}
KERNELS = {"full": "eNTK", "pseudo": "pNTK"}
CASE = ["processor", "net", "width", "points", "output", "classes"]


def ratios(table: pd.DataFrame) -> pd.DataFrame:
    """One row per case and peer: `time` and `memory` of the peer's fastest implementation over this engine's."""
    peer_of = {name: peer for peer, names in PEERS.items() for name in names}
    peers = table.assign(peer=table.contender.map(peer_of)).dropna(subset=["peer", "seconds"])
    best = peers.loc[peers.groupby([*CASE, "peer"]).seconds.idxmin()].set_index(CASE)
    ours = table[table.contender == "ours"].set_index(CASE).reindex(best.index)
    both = best.assign(time=best.seconds / ours.seconds, memory=best.peak_gib / ours.peak_gib).reset_index()
    return both.dropna(subset=["time"])[[*CASE, "peer", "contender", "time", "memory"]]


def processors(table: pd.DataFrame) -> dict[str, str]:
    """Short names of the processors, `Intel(R) Xeon(R)`: the one that was measured last comes first."""
    order = table.groupby("processor").measured_at.max().sort_values(ascending=False).index
    return {name: name.partition(",")[0].removesuffix(" Processor") for name in order}
