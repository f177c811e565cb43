"""Contenders in turns: each is a program that lives through all rounds of a case and works when it is called upon.

The speed of a shared machine drifts by a third within minutes. In several rounds of a few seconds each, every contender
has several chances to meet the machine at its best. Standard library only: programs run in other environments, too.
"""

import json
import math
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from bench.tools.perf import quiet

ROOT = Path(__file__).parents[3]
SPAN = 3.0  # seconds of a turn: short work is repeated for at least so long
ONCE = 30.0  # seconds: work longer than that is done once in a turn


def serve(find: Callable[[], dict]) -> None:
    """The program's side: say that it is ready, then answer every line on stdin with what `find` finds, as JSON."""
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(find()), flush=True)


def timed(work: Callable[[], float]) -> dict:
    """One turn. What `work` returns, the trace of the matrix it computed, is reported, to be compared."""
    values: list[float] = []

    def once() -> None:
        values.append(work())

    timing = quiet.measure(once, repeats=1, at_most=1)
    if timing.seconds < ONCE:
        repeats = math.ceil(SPAN / timing.seconds)
        timing = quiet.measure(once, repeats, at_most=3 * repeats, budget=60)
    return asdict(timing) | {"peak_gib": memory("VmHWM:") / 2**30, "trace": values[-1]}


class Program:
    """The caller's side. The program has `limit` seconds to get ready, and as many for every turn."""

    def __init__(self, command: list[str], limit: float | None = None):
        self.limit, self.ready, self.stopped = limit, False, False
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed by `close`
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.errors, text=True, cwd=ROOT)

    def turn(self) -> dict:
        """What the program found, or a note of how it failed."""
        self.ready = self.ready or bool(self._line())
        if not self.ready:
            return self._failure("before it was ready")
        with suppress(BrokenPipeError):
            print("go", file=self.process.stdin, flush=True)
        line = self._line()
        return json.loads(line) if line else self._failure("at work")

    def _line(self) -> str:
        """The next line it prints; nothing if it ends before, or is stopped."""
        if not select.select([self.process.stdout], [], [], self.limit)[0]:
            self.stopped = True
            self.process.kill()
        return self.process.stdout.readline()

    def _failure(self, when: str) -> dict:
        code = self.process.wait()
        if self.stopped:
            return {"note": f"stopped after {self.limit:g} s {when}"}
        self.errors.seek(0)
        last = (self.errors.read().strip().splitlines() or ["no message"])[-1]
        return {"note": f"failed ({code}) {when}: {last[:120]}"}

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            with suppress(BrokenPipeError):  # of a line it did not live to read
                stream.close()


def best(turns: list[dict]) -> dict:
    """The fastest of a contender's turns, with the repetitions of all; of turns that all failed, the first.

    Its peak memory is the first turn's: a process does not forget what it did between turns. `seconds_by_round` has
    every turn's, as text: nan for one that was disturbed, or failed.
    """
    timed = [turn for turn in turns if "seconds" in turn]
    if not timed:
        return turns[0]
    undisturbed = [turn for turn in timed if turn["foreign"] <= quiet.FOREIGN]
    seconds = (turn["seconds"] if turn in undisturbed else math.nan for turn in turns)
    return min(undisturbed or timed, key=lambda turn: turn["seconds"]) | {
        "repeats": sum(turn["repeats"] for turn in timed),
        "peak_gib": timed[0]["peak_gib"],
        "seconds_by_round": " ".join(f"{each:.6g}" for each in seconds),
    }


def words(found: dict) -> str:
    """A result for the log."""
    if "seconds" not in found:
        return found["note"]
    marked = "" if found["foreign"] <= quiet.FOREIGN else f"  (others used {found['foreign']:.0%} of the machine)"
    return f"{found['seconds']:.4g} s{marked}"


def memory(field: str) -> int:
    """Bytes of this process: VmRSS: now, VmHWM: at most so far (ru_maxrss counts the parent's)."""
    status = Path("/proc/self/status").read_text().split()
    return int(status[status.index(field) + 1]) * 1024
