"""Contenders in turns: each is a program that lives through all rounds of a case and works when it is called upon.

The speed of a shared machine drifts by a third within minutes, so contenders measured one after the other are compared
at different speeds. In turns, a few seconds each and several rounds, the fastest repetition of each was measured while
the machine was at its best for all. Standard library only: programs run in other environments, too.
"""

import json
import math
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bench.perf import quiet

ROOT = Path(__file__).parents[2]
SPAN = 3.0  # seconds of a turn: short work is repeated for at least so long
ONCE = 30.0  # seconds: work longer than that is not repeated


def serve(work: Callable[[], float], more: Callable[[quiet.Timing], dict] = lambda timing: {}) -> None:
    """The program's side: for every line on stdin, time `work` and print what was found, and `more`, as a line of JSON.

    What `work` returns, say the trace of the matrix it computed, is reported, so that answers can be compared.
    """
    for _ in sys.stdin:
        values: list[float] = []
        timing = quiet.measure(lambda: values.append(work()), repeats=1, at_most=1)  # noqa: B023, used at once
        if timing.seconds < ONCE:
            repeats = max(2, math.ceil(SPAN / timing.seconds))
            timing = quiet.measure(lambda: values.append(work()), repeats, at_most=3 * repeats, budget=60)  # noqa: B023
        found = asdict(timing) | {"peak_gib": memory("VmHWM:") / 2**30, "trace": values[-1]}
        print(json.dumps(found | more(timing)), flush=True)


class Program:
    """The caller's side: a contender's program, ended by `close` or with the `with` block."""

    def __init__(self, command: list[str], limit: float | None = None):
        self.limit, self.stopped = limit, False
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed by `close`
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.errors, text=True, cwd=ROOT)

    def turn(self) -> dict:
        """What the program found, or a note of how it failed. It has `limit` seconds, at first from its start."""
        timer = threading.Timer(self.limit, self._stop) if self.limit else None
        if timer:
            timer.start()
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = self.process.stdout.readline()  # it may have answered without being asked
        finally:
            if timer:
                timer.cancel()
        if line:
            return json.loads(line)
        code = self.process.wait()
        if self.stopped:
            return {"note": f"stopped after {self.limit:g} s", "at_least": self.limit}
        self.errors.seek(0)
        last = (self.errors.read().strip().splitlines() or ["no message"])[-1]
        return {"note": f"failed ({code}): {last[:120]}"}

    def _stop(self) -> None:
        self.stopped = True
        self.process.kill()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """End the program; once more does no harm."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            stream.close()


def best(turns: list[dict]) -> dict:
    """The fastest of a contender's turns, with the repetitions of all; of turns that all failed, the first."""
    timed = [turn for turn in turns if "seconds" in turn]
    if not timed:
        return turns[0]
    quick = [turn for turn in timed if turn["foreign"] <= quiet.FOREIGN] or timed
    return min(quick, key=lambda turn: turn["seconds"]) | {"repeats": sum(turn["repeats"] for turn in timed)}


def memory(field: str) -> int:
    """Bytes of this process: VmRSS: now, VmHWM: at most so far (ru_maxrss would count the parent's)."""
    status = Path("/proc/self/status").read_text().split()
    return int(status[status.index(field) + 1]) * 1024
