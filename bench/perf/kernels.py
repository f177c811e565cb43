"""`python -m bench perf kernels`: the kernel engine beside torch.func and, with --peers, neural-tangents.

Every measurement is a process of its own, so that its peak memory is its own: this module run as a program with one
JSON argument. Equal nets, equal weights, equal inputs, float32, all cores.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pandas as pd
import torch
from torch.func import functional_call, jacrev, vmap

from bench import machine, nets
from bench.errors import UserError
from bench.kernels.gram import flops, gram
from bench.perf import quiet
from bench.perf.peers import python_of
from bench.perf.program import export
from bench.progress import say
from bench.seeds import torch_stream

MEMORY = 16 * 2**30  # bytes; a contender that needs more is not started
SPAN, ONCE = 5.0, 60.0  # seconds: short work is repeated for at least so long, work longer than that not at all
LIMIT = 240  # seconds; a peer that needs longer is stopped
SHAPE = (3, 32, 32)
# Where the engine's time goes, by torch operation; `rest` is all that is not named here
PARTS = {
    "convolutions": ("aten::mkldnn_convolution", "aten::convolution_backward"),  # forward and backward passes
    "batched_products": ("aten::bmm",),  # rows of J from gradients and patches; ghosts
    "products": ("aten::mm", "aten::addmm"),  # Gram matrices
}


@dataclass(frozen=True)
class Case:
    net: str
    width: int
    points: int  # N
    output: str = "full"
    classes: int = 10  # O
    group: str = "peers"


COLUMNS = [
    *("net", "width", "points", "output", "classes", "group", "contender", "note", "parameters", "seconds", "at_least"),
    *("repeats", "foreign", "peak_gib", "gflop", "gemm_gflops", "gemm_fraction", "first", *PARTS, "rest", "processor"),
]
NETS = (("fcn", 1024), ("convnet", 2), ("resnet18", 1), ("wrn-16", 1), ("wrn-28", 2))
PEERS = [Case(net, width, n, output) for net, width in NETS for n in (32, 256) for output in ("full", "pseudo")]
GROWTH = [
    *(Case("resnet18", 1, n, group="growth in N") for n in (32, 64, 128, 256)),
    *(Case("convnet", 2, 32, output, o, "growth in O") for o in (5, 10, 20, 40) for output in ("full", "pseudo")),
    *(Case("wrn-16", k, 32, output, group="growth in width") for k in (1, 2, 4) for output in ("full", "pseudo")),
]
THESIS = [Case(net, width, 1000, group="thesis size") for net, width in (("convnet", 2), ("resnet18", 1))]


def run(peers: bool, out: Path, only: str | None = None) -> pd.DataFrame:
    """Measure every case and write the table after each; rows of a run that was stopped are kept, which is said."""
    from bench import tables

    rows = pd.read_csv(out, dtype={"note": str}).fillna({"note": ""}).to_dict("records") if out.is_file() else []
    if rows:
        say(f"{out}: keeping {len(rows)} rows measured earlier; for ratios within one run, remove it first")
    done = {(*(row[key] for key in asdict(PEERS[0])), row["contender"]) for row in rows}
    names = ["ours", "torch.func", *(("neural-tangents 1", "neural-tangents 3") if peers else ())]
    jobs = [(case, name) for case in sorted(PEERS, key=lambda case: case.points) for name in names]  # small ones first
    jobs = [(case, "ours") for case in THESIS] + jobs + [(case, "ours") for case in GROWTH]
    on = f"{machine.processor()}, {os.cpu_count()} cores"
    for case, contender in jobs:
        if (*asdict(case).values(), contender) in done or (only and only not in f"{case} {contender}"):
            continue
        foreign = quiet.wait()
        if foreign > quiet.FOREIGN:
            say(f"others use {foreign:.0%} of this machine; numbers below are marked")
        result = _measured(case, contender)
        size = f"{case.net} {case.width}, N = {case.points}, O = {case.classes}, {case.output}"
        say(f"{contender:<18}{size:<44}{_words(result)}")
        rows.append(asdict(case) | {"contender": contender, "note": "", "processor": on} | result)
        tables.write(pd.DataFrame(rows, columns=COLUMNS), out)
    return pd.DataFrame(rows, columns=COLUMNS)


def _words(result: dict) -> str:
    if "seconds" not in result:
        return result["note"]
    marked = "" if result["foreign"] <= quiet.FOREIGN else f"  (others used {result['foreign']:.0%} of the machine)"
    share = f", {result['gemm_fraction']:.0%} of the GEMM limit" if "gemm_fraction" in result else ""
    return f"{result['seconds']:.4g} s, {result['peak_gib']:.2f} GiB{share}{marked}"


def _measured(case: Case, contender: str) -> dict:
    """One contender on one case, in a process of its own."""
    parameters = sum(p.numel() for p in _net(case).parameters())
    needed = case.points * parameters * 4 * (case.classes if case.output == "full" else 1)
    if contender in ("torch.func", "neural-tangents 1") and 2 * needed > MEMORY:
        return {"parameters": parameters, "note": f"not run: its Jacobian alone takes {needed / 2**30:.0f} GiB"}
    if contender.startswith("neural-tangents"):
        found = _neural_tangents(case, contender.split()[1])
    else:
        command = [sys.executable, "-m", "bench.perf.kernels", json.dumps(asdict(case)), contender]
        found = answer(command, None if contender == "ours" else LIMIT)
    return {"parameters": parameters} | found


def answer(command: list[str], limit: float | None = None) -> dict:
    """What a program prints as its last line, in JSON; or a note of how it failed. It has `limit` seconds."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"note": f"stopped after {limit} s", "at_least": limit}
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        return {"note": f"failed ({result.returncode}): {last[:120]}"}
    return json.loads(result.stdout.strip().splitlines()[-1])


def _neural_tangents(case: Case, implementation: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        net, x = _net(case), _inputs(case)
        export(net, x, Path(folder))
        script = Path(__file__).with_name("neural_tangents_peer.py")
        command = [python_of("neural-tangents"), str(script), folder, case.output, implementation, "3"]
        found: dict = {}

        def work() -> None:
            found.update(answer(command, LIMIT))

        # The peer cannot watch the machine itself; what its whole process suffered from others stands for its times.
        foreign = quiet.measure(work, repeats=1, at_most=1).foreign
        return found | {"foreign": foreign}


def _net(case: Case) -> torch.nn.Module:
    return nets.build(case.net, SHAPE, case.classes, case.width, torch_stream(0, "init")).eval()


def _inputs(case: Case) -> torch.Tensor:
    return torch.randn(case.points, *SHAPE, generator=torch_stream(0, "data"))


def by_jacobian(net: torch.nn.Module, x: torch.Tensor, output: str) -> torch.Tensor:
    """The plain torch.func way: all per-sample Jacobians, then their products, parameter by parameter."""
    parameters = {name: value.detach() for name, value in net.named_parameters()}

    def outputs(parameters: dict, image: torch.Tensor) -> torch.Tensor:
        values = functional_call(net, parameters, (image[None],))[0]  # (O,)
        return values if output == "full" else values.sum(0, keepdim=True) / math.sqrt(len(values))

    jacobian = vmap(jacrev(outputs), (None, 0))(parameters, x)  # {name: (N, O, *shape)}
    rows = [each.flatten(2).flatten(0, 1) for each in jacobian.values()]  # (N O, P_layer)
    return sum(each @ each.T for each in rows)  # (N O, N O)


def gemm_rate(size: int = 2048) -> float:
    """The machine's own float32 matrix-product rate, in flop/s."""
    a, b = torch.randn(2, size, size)
    out = torch.empty(size, size)
    return 2 * size**3 / quiet.measure(lambda: torch.mm(a, b, out=out), repeats=5).seconds


def profile(work: Callable[[], object]) -> dict[str, float]:
    """Shares of the time of `work` by kind of operation."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        work()
    spent = {event.key: event.self_cpu_time_total for event in profiler.key_averages()}
    total = sum(spent.values())
    shares = {part: sum(spent.get(name, 0) for name in names) / total for part, names in PARTS.items()}
    return shares | {"rest": 1 - sum(shares.values())}


def main(case: Case, contender: str) -> None:
    torch.set_num_threads(os.cpu_count())
    net, x = _net(case), _inputs(case)
    work = {"ours": gram, "torch.func": by_jacobian}[contender]
    small = _inputs(replace(case, points=2))
    work(net, small, output=case.output)  # libraries load and thread pools start here
    once = quiet.measure(lambda: work(net, x, output=case.output), repeats=1)
    timing, repeats = once, math.ceil(SPAN / once.seconds)
    if once.seconds < ONCE:
        repeats = max(3, repeats)
        timing = quiet.measure(lambda: work(net, x, output=case.output), repeats, at_most=3 * repeats, budget=60)
    status = Path("/proc/self/status").read_text().split()
    peak = int(status[status.index("VmHWM:") + 1]) / 2**20  # kB -> GiB; ru_maxrss would count the parent's memory
    found = asdict(timing) | {"peak_gib": peak}
    if contender == "ours":
        rate = gemm_rate()
        least = flops(net, x, output=case.output)
        found |= {"gflop": least / 1e9, "gemm_gflops": rate / 1e9, "gemm_fraction": least / rate / timing.seconds}
        if timing.seconds < 30:
            found |= profile(lambda: work(net, x, output=case.output))
    print(json.dumps(found))


if __name__ == "__main__":
    try:
        main(Case(**json.loads(sys.argv[1])), sys.argv[2])
    except UserError as error:
        sys.exit(str(error))
