"""Contenders in turns: each is a program that lives through all rounds of a case and works when it is called upon.

The speed of a shared machine drifts by a third within minutes, so contenders measured one after the other are compared
at different speeds. In turns, a few seconds each and several rounds, each has several chances to meet the machine at
its best. Standard library only: programs run in other environments, too.
"""

import json
import math
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from bench.tools.perf import quiet

ROOT = Path(__file__).parents[2]
SPAN = 3.0  # seconds of a turn: short work is repeated for at least so long
ONCE = 30.0  # seconds: work longer than that is done once in a turn


def serve(**answers: Callable[[], dict]) -> None:
    """The program's side: say that it is ready, then answer every word on stdin with what its function finds, as JSON.

    `time` is a turn's work; what else may be asked for is between program and caller.
    """
    print(json.dumps({"ready": True}), flush=True)
    for word in sys.stdin:
        print(json.dumps(answers[word.strip()]()), flush=True)


def timed(work: Callable[[], float]) -> dict:
    """One turn. What `work` returns, say the trace of the matrix it computed, is reported, to be compared."""
    values: list[float] = []

    def once() -> None:
        values.append(work())

    timing = quiet.measure(once, repeats=1, at_most=1)
    if timing.seconds < ONCE:
        repeats = math.ceil(SPAN / timing.seconds)
        timing = quiet.measure(once, repeats, at_most=3 * repeats, budget=60)
    return asdict(timing) | {"peak_gib": memory("VmHWM:") / 2**30, "trace": values[-1]}


class Program:
    """The caller's side: a contender's program, ended by `close` or with the `with` block.

    It has `limit` seconds to get ready, and as many for every turn.
    """

    def __init__(self, command: list[str], limit: float | None = None):
        self.limit, self.ready, self.stopped, self.peak = limit, False, False, math.nan
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed by `close`
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.errors, text=True, cwd=ROOT)

    def turn(self, word: str = "time") -> dict:
        """What the program found, or a note of how it failed.

        One that was stopped at work took `at_least` so long: it would have been through with several short pieces. Its
        peak memory is what it had taken by then.
        """
        if not self.ready and not self._line():
            return self._failure("before it was ready")
        self.ready = True
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()
        line = self._line()
        return json.loads(line) if line else self._failure("at work")

    def _line(self) -> str:
        """The next line it prints; nothing if it ends before, or is stopped."""
        if not self.limit:
            return self.process.stdout.readline()
        timer = threading.Timer(self.limit, self._stop)
        timer.start()
        try:
            return self.process.stdout.readline()
        finally:
            timer.cancel()

    def _stop(self) -> None:
        with suppress(OSError, ValueError):  # it ended by itself, just now
            self.peak = memory("VmHWM:", self.process.pid) / 2**30
        self.stopped = True
        self.process.kill()

    def _failure(self, when: str) -> dict:
        code = self.process.wait()
        if self.stopped:
            bound = {"at_least": self.limit, "peak_gib": self.peak} if self.ready else {}
            return {"note": f"stopped after {self.limit:g} s {when}"} | bound
        self.errors.seek(0)
        last = (self.errors.read().strip().splitlines() or ["no message"])[-1]
        return {"note": f"failed ({code}) {when}: {last[:120]}"}

    def close(self) -> None:
        """End the program; once more does no harm."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            with suppress(BrokenPipeError):  # of a line it did not live to read
                stream.close()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def best(turns: list[dict]) -> dict:
    """The fastest of a contender's turns, with the repetitions of all; of turns that all failed, the first.

    Its peak memory is the first turn's: a process does not forget what it did between turns. `seconds_by_round` has
    every turn's, as text: nan for one that was disturbed, or failed.
    """
    timed = [turn for turn in turns if "seconds" in turn]
    if not timed:
        return turns[0]
    quick = [turn for turn in timed if turn["foreign"] <= quiet.FOREIGN]
    seconds = (turn["seconds"] if turn.get("foreign", math.inf) <= quiet.FOREIGN else math.nan for turn in turns)
    of_all = {
        "repeats": sum(turn["repeats"] for turn in timed),
        "peak_gib": timed[0]["peak_gib"],
        "seconds_by_round": " ".join(f"{each:.6g}" for each in seconds),
    }
    return min(quick or timed, key=lambda turn: turn["seconds"]) | of_all


def memory(field: str, process: int | str = "self") -> int:
    """Bytes of a process, this one by default: VmRSS: now, VmHWM: at most so far (ru_maxrss counts the parent's)."""
    status = Path(f"/proc/{process}/status").read_text().split()
    return int(status[status.index(field) + 1]) * 1024
