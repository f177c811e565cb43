"""Who computes a kernel: this engine, torch.func and neural-tangents, each a program of its own, asked in turns.

    python -m bench.tools.perf.contenders CASE {ours,torch.func}

Equal nets, equal weights, equal inputs, float32, all cores; a program of its own has its own peak memory.
"""

import json
import math
import os
import sys
import tempfile
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch.func import functional_call, jacrev, vmap

from bench import nets
from bench.core import digest
from bench.core.errors import UserError
from bench.core.seeds import torch_stream
from bench.kernels.empirical import flops, gram
from bench.tools.perf import quiet, turns
from bench.tools.perf.exported import export
from bench.tools.perf.peers import neural_tangents_python

MEMORY = 16 * 2**30  # bytes; a contender whose Jacobian takes more than half of that is not started
LIMIT = 240  # seconds; a peer that needs longer is stopped
FEW, ROUNDS, ROUNDS_OF_MANY = 32, 4, 3  # turns of each contender: up to so many points, and with more
SAME = 1e-3  # relative difference between kernels of contenders, in trace or norm, that are still equal in float32
SHAPE = (3, 32, 32)


@dataclass(frozen=True)
class Case:
    net: str
    width: int
    points: int  # N
    output: str = "full"
    classes: int = 10  # O


def engine() -> str:
    return f"{digest.of('bench.kernels.empirical')}, torch {torch.__version__}"


def measured(case: Case, contenders: list[str]) -> dict[str, dict]:
    """What each contender's fastest turn at one case was like."""
    parameters = sum(p.numel() for p in _net(case).parameters())
    jacobian = case.points * parameters * 4 * (case.classes if case.output == "full" else 1)
    found: dict[str, list[dict]] = {}
    with ExitStack() as stack:
        programs = {}
        for name in contenders:  # started one after the other, so that no start falls into another's turn
            if name in ("torch.func", "neural-tangents 1") and 2 * jacobian > MEMORY:
                found[name] = [{"note": f"not run: its Jacobian alone takes {jacobian / 2**30:.0f} GiB"}]
            else:
                programs[name] = stack.enter_context(closing(_program(case, name, stack)))
                found[name] = [programs[name].turn()]
        for _ in range(1, ROUNDS if case.points <= FEW else ROUNDS_OF_MANY):
            for name, program in programs.items():
                found[name].append(program.turn())
    results = {name: {"parameters": parameters} | turns.best(found[name]) for name in contenders}
    check_agreement(results)
    return results


def check_agreement(results: dict[str, dict]) -> None:
    """Contenders that were timed must agree on the kernel's trace and on its Frobenius norm, all entries in one."""
    for what in ("trace", "norm"):
        found = {name: result[what] for name, result in results.items() if "seconds" in result}
        first = next(iter(found.values()), 0.0)
        if not all(math.isclose(value, first, rel_tol=SAME) for value in found.values()):  # not so for nan
            raise UserError(f"contenders differ in the {what} of the kernel: {found}")


def _program(case: Case, contender: str, stack: ExitStack) -> turns.Program:
    if not contender.startswith("neural-tangents"):
        command = [sys.executable, "-m", "bench.tools.perf.contenders", json.dumps(asdict(case)), contender]
        return turns.Program(command, LIMIT if contender == "torch.func" else None)
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    export(_net(case), _inputs(case), Path(folder))
    command = [neural_tangents_python(), "-m", "bench.tools.perf.neural_tangents_peer", folder, case.output]
    return turns.Program([*command, contender.split()[1]], LIMIT)


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


def main(case: Case, contender: str) -> None:
    torch.set_num_threads(os.cpu_count())
    net, x, code = _net(case), _inputs(case), engine()
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
            found["engine"] = code
        return found

    turns.serve(find)


if __name__ == "__main__":
    main(Case(**json.loads(sys.argv[1])), sys.argv[2])
