"""`python -m bench perf kernels`: the kernel engine beside torch.func and, with --peers, neural-tangents.

Every contender is a program of its own, so that its peak memory is its own: this module run with a case and a name.
They work in turns, several rounds (`turns.py`). Equal nets, equal weights, equal inputs, float32, all cores.
At the thesis' size the other contender is the machine itself: as many flops, all in products of large matrices.
Growths include the engine's own rows of cases with peers.
"""

import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import torch
from torch.func import functional_call, jacrev, vmap
from torch.utils.flop_counter import FlopCounterMode

from bench import nets
from bench.core import digest, machine
from bench.core.errors import UserError
from bench.core.progress import say
from bench.core.seeds import torch_stream
from bench.kernels.empirical import flops, gram
from bench.tools.perf import quiet, turns
from bench.tools.perf.bars import PRODUCTS, REST, fractions
from bench.tools.perf.peers import python_of
from bench.tools.perf.program import export

MEMORY = 16 * 2**30  # bytes; a contender whose Jacobian takes more than half of that is not started
LIMIT = 240  # seconds; a peer that needs longer is stopped
FEW, ROUNDS, ROUNDS_OF_MANY = 32, 4, 3  # turns of each contender: up to so many points, and with more
PROFILED = 256  # points, at most: a profile of more takes more memory than the work itself
FAR = 10  # times as slow as the fastest: a contender that is, after its first turn, has no other
SAME = 1e-3  # relative difference between kernels of contenders, in trace or norm, that are still equal in float32
SHAPE = (3, 32, 32)
# Where the engine's time goes, by torch operation; `other_operations` are all that are not named here, sums, copies and
# elementwise work, and `overhead` is no operation's
PARTS = {
    "convolutions": ("convolution", "_convolution", "mkldnn_convolution"),  # forward; backward, as transposed ones
    "batched_products": ("bmm",),  # rows of J; blocks of J J^T at the diagonal, and small ones; ghosts but for H
    "products": ("mm", "addmm"),  # other blocks of J J^T; H of ghosts; linear layers
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
    *("seconds_by_round", "repeats", "foreign", "peak_gib", "trace", "norm"),
    *("gflop", "gemm_gflops", "gemm_fraction", "compilation"),
    *(*PARTS, *REST, *(f"{part}_gflops" for part in PARTS)),
    *("processor", "engine", "measured_at"),
]
PRINTED = [*COLUMNS[:5], "contender", "seconds", "peak_gib", "gemm_fraction"]
NETS = (("fcn", 1024), ("convnet", 2), ("resnet18", 1), ("wrn-16", 1), ("wrn-28", 2))
PEERS = [Case(net, width, n, output) for net, width in NETS for n in (32, 256) for output in ("full", "pseudo")]
GROWTH = [
    *(Case("resnet18", 1, n, output, group="growth in N") for n in (64, 128) for output in ("full", "pseudo")),
    *(Case("convnet", 2, 32, output, o, "growth in O") for o in (5, 20, 40) for output in ("full", "pseudo")),
    *(Case("wrn-16", k, 32, output, group="growth in width") for k in (2, 4) for output in ("full", "pseudo")),
]
THESIS = [Case(net, width, 1000, group="thesis size") for net, width in (("convnet", 2), ("resnet18", 1))]


def run(peers: bool, out: Path, only: str | None = None) -> pd.DataFrame:
    """Measure every case and write the table after each.

    Cases of a run of this engine on this machine that was stopped are kept, which is said, if they are whole: where a
    contender is missing, or others used the machine, all contenders are measured again, so that no ratio is between
    different times.
    """
    from bench.studies.lookahead.run import tables

    rows, engine = _earlier(out, strict=only is not None), _engine()
    names = ["ours", "torch.func", *(("neural-tangents 1", "neural-tangents 3") if peers else ())]
    jobs = [(case, names) for case in sorted(PEERS, key=lambda case: case.points)]  # small ones first
    jobs += [(case, ["ours", PRODUCTS]) for case in THESIS] + [(case, ["ours"]) for case in GROWTH]
    jobs = [(case, contenders) for case, contenders in jobs if not only or only in str(case)]
    left = [(case, contenders) for case, contenders in jobs if not _whole(rows, case, contenders)]
    if len(left) < len(jobs):
        say(f"{out}: keeping {len(jobs) - len(left)} cases measured earlier; to measure all in one go, remove it first")
    for case, contenders in left:
        foreign = quiet.wait()
        if foreign > quiet.FOREIGN:
            say(f"others use {foreign:.0%} of this machine; numbers below are marked")
        others = (row["contender"] for row in rows if _is(row, case) and row["contender"] not in contenders)
        results = measured(case, [*contenders, *others])
        if results["ours"].get("engine", engine) != engine:
            raise UserError("the engine's code was changed while it was being measured; start again")
        rows = [row for row in rows if not _is(row, case)]
        for contender, result in results.items():
            size = f"{case.net} {case.width}, N = {case.points}, O = {case.classes}, {case.output}"
            say(f"{contender:<18}{size:<44}{_words(result)}")
            rows.append(asdict(case) | {"contender": contender, "note": ""} | _circumstances() | result)
        tables.write(_table(rows), out)
    return _table(rows)


def profile_again(out: Path) -> pd.DataFrame:
    """Profile this engine once more at every case of an earlier run of it on this machine; times stay as they are."""
    from bench.studies.lookahead.run import tables

    rows = _earlier(out)
    if not rows:
        raise UserError(f"{out}: nothing of this engine on this machine to profile; type: python -m bench perf kernels")
    for row in (row for row in rows if row["contender"] == "ours"):
        case = Case(**{field.name: row[field.name] for field in fields(Case)})
        row.update(_profile_of(case))
        say(f"{case.net} {case.width}, N = {case.points}, O = {case.classes}, {case.output}: profiled")
        tables.write(_table(rows), out)
    return _table(rows)


def _earlier(out: Path, strict: bool = False) -> list[dict]:
    """What was measured before of this engine on this machine. Whether there is anything else is said, or refused."""
    if not out.is_file():
        return []
    rows = pd.read_csv(out, dtype={"note": str, "seconds_by_round": str}).fillna({"note": ""}).to_dict("records")
    same = {key: value for key, value in _circumstances().items() if key != "measured_at"}
    kept = [row for row in rows if set(COLUMNS) <= set(row) and all(row[key] == same[key] for key in same)]
    if len(kept) < len(rows):
        what = f"{out}: {len(rows) - len(kept)} rows are of another machine or another version of the engine"
        if strict:
            raise UserError(f"{what}; choose another folder with --out, or measure all, without --only")
        say(f"{what}; not kept")
    return kept


def _circumstances() -> dict[str, str]:
    """Where, of which engine and when a measurement is."""
    return {
        "processor": f"{machine.processor()}, {os.cpu_count()} cores",
        "engine": _engine(),
        "measured_at": datetime.now(UTC).isoformat(timespec="minutes"),
    }


def _engine() -> str:
    return f"{digest.of('bench.kernels.empirical')}, torch {torch.__version__}"


def _table(rows: list[dict]) -> pd.DataFrame:
    """In order, whatever was measured first, with the fraction of the best GEMM rate seen so far."""
    table = pd.DataFrame(rows, columns=COLUMNS).sort_values(COLUMNS[:7], ignore_index=True)
    return table.assign(gemm_fraction=fractions(table))


def _is(row: dict, case: Case) -> bool:
    return all(row[key] == value for key, value in asdict(case).items())


def _whole(rows: list[dict], case: Case, contenders: list[str]) -> bool:
    """Whether all contenders were measured at this case, and none of them while others used the machine."""
    had = {row["contender"] for row in rows if _is(row, case) and not row["foreign"] > quiet.FOREIGN}  # nan: not timed
    return had >= set(contenders)


def _words(result: dict) -> str:
    if "seconds" not in result:
        return result["note"]
    marked = "" if result["foreign"] <= quiet.FOREIGN else f"  (others used {result['foreign']:.0%} of the machine)"
    return f"{result['seconds']:.4g} s, {result['peak_gib']:.2f} GiB{marked}"


def measured(case: Case, contenders: list[str]) -> dict[str, dict]:
    """What each contender's fastest turn at one case was like."""
    parameters = sum(p.numel() for p in _net(case).parameters())
    jacobian = case.points * parameters * 4 * (case.classes if case.output == "full" else 1)
    too_large = {"note": f"not run: its Jacobian alone takes {jacobian / 2**30:.0f} GiB"}
    rounds = ROUNDS if case.points <= FEW else ROUNDS_OF_MANY
    found: dict[str, list[dict]] = {}
    with ExitStack() as stack:
        programs: dict[str, turns.Program] = {}
        for turn in range(rounds):
            fastest = min(map(_fastest, found.values()), default=math.inf)
            for name in contenders:
                if turn == 0:
                    if name in ("torch.func", "neural-tangents 1") and 2 * jacobian > MEMORY:
                        found[name] = [too_large]
                        continue
                    programs[name] = stack.enter_context(_program(case, name, stack))
                elif name in programs and not _fastest(found[name]) < FAR * fastest:
                    programs.pop(name).close()  # it failed, or no other turn would change the picture
                if name in programs:
                    found.setdefault(name, []).append(programs[name].turn())
                    if turn == rounds - 1:
                        programs[name].close()  # before the next one needs its memory
    results = {name: {"parameters": parameters} | turns.best(found[name]) for name in contenders}
    check_agreement(results)
    if "seconds" in results.get("ours", {}):
        results["ours"] |= _profile_of(case)
    return results


def _fastest(found: list[dict]) -> float:
    """Seconds of a contender's fastest turn so far."""
    return min(turn.get("seconds", math.inf) for turn in found)


def _profile_of(case: Case) -> dict:
    """Where this engine's time goes at a case, by a program of its own; nothing, which is said, if it does not end."""
    with ExitStack() as stack, _program(case, "ours", stack) as program:
        found = program.turn("profile")
    if "note" not in found:
        return found
    say(f"no profile of {case}: {found['note']}")
    return {}


def check_agreement(results: dict[str, dict]) -> None:
    """Contenders that were timed must agree on the kernel's trace and on its Frobenius norm, all entries in one."""
    for what in ("trace", "norm"):
        found = {name: result[what] for name, result in results.items() if "seconds" in result and name != PRODUCTS}
        ours = next(iter(found.values()), 0.0)
        if not all(math.isclose(value, ours, rel_tol=SAME) for value in found.values()):  # not so for nan
            raise UserError(f"contenders differ in the {what} of the kernel: {found}")


def _program(case: Case, contender: str, stack: ExitStack) -> turns.Program:
    if not contender.startswith("neural-tangents"):
        command = [sys.executable, "-m", "bench.tools.perf.kernels", json.dumps(asdict(case)), contender]
        return turns.Program(command, LIMIT if contender == "torch.func" else None)
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    export(_net(case), _inputs(case), Path(folder))
    script = "bench.tools.perf.neural_tangents_peer"
    return turns.Program([python_of("neural-tangents"), "-m", script, folder, case.output, contender.split()[1]], LIMIT)


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


def multiply(flop: float, size: int = 2048) -> None:
    """So many flops, in products of square matrices one after the other."""
    a, b = torch.randn(2, size, size)
    out = torch.empty(size, size)
    for _ in range(round(flop / (2 * size**3))):
        torch.mm(a, b, out=out)


def profile(work: Callable[[], object]) -> dict[str, float]:
    """Shares of the time of `work` by kind of operation, and the rate of each kind of product.

    Of two runs the faster: the first may also pay for memory that the profiler takes from the work. Overhead includes
    the profiler's own. Flops are counted apart, in another call: a profiler that counts them, too, makes the rest
    several times slower.
    """
    with FlopCounterMode(display=False) as counter:
        work()
    wall, times = min((_operations(work) for _ in range(2)), key=lambda run: run[0])
    counts = {str(operation): count for operation, count in counter.get_flop_counts()["Global"].items()}
    found = {}
    for part, names in PARTS.items():
        spent = sum(times.pop(f"aten::{name}", 0) for name in names)
        flops = sum(counts.get(f"aten.{name}", 0) for name in names)
        found |= {part: spent / wall} | ({f"{part}_gflops": flops / spent / 1e3} if spent else {})
    others = sum(spent for name, spent in times.items() if name.startswith("aten::")) / wall
    return found | {"other_operations": others, "overhead": 1 - others - sum(found[part] for part in PARTS)}


def _operations(work: Callable[[], object]) -> tuple[float, dict[str, float]]:
    """Microseconds that `work` takes, and those spent in each operation itself."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        start = time.perf_counter()
        work()
        wall = time.perf_counter() - start
    return 1e6 * wall, {event.key: event.self_cpu_time_total for event in profiler.key_averages()}


def main(case: Case, contender: str) -> None:
    torch.set_num_threads(os.cpu_count())
    net, x, engine = _net(case), _inputs(case), _engine()
    kernel = by_jacobian if contender == "torch.func" else gram
    kernel(net, x[:2], output=case.output)  # libraries load and thread pools start here

    last: list[torch.Tensor] = []  # the kernel found last

    def work() -> float:
        last.clear()
        last.append(kernel(net, x, output=case.output))
        return last[0].trace().item()

    def find() -> dict:
        found = turns.timed(work) | {"norm": torch.linalg.vector_norm(last[0], dtype=torch.float64).item()}
        if contender == "ours":
            found |= {"gflop": flops(net, x, output=case.output) / 1e9, "gemm_gflops": gemm_rate() / 1e9}
            found["engine"] = engine
        return found

    def find_products() -> dict:
        flop = flops(net, x, output=case.output)

        def work() -> float:
            multiply(flop)
            return math.nan  # no kernel, no trace

        return turns.timed(work) | {"gflop": flop / 1e9}

    def find_profile() -> dict:
        last.clear()
        some = x[:PROFILED]
        return profile(lambda: gram(net, some, output=case.output))

    turns.serve(time=find_products if contender == PRODUCTS else find, profile=find_profile)


if __name__ == "__main__":
    try:
        main(Case(**json.loads(sys.argv[1])), sys.argv[2])
    except UserError as error:
        sys.exit(str(error))
