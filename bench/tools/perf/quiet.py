"""Timing that other processes cannot spoil: repetitions during which they used the machine do not count.

Two threads that share two cores with one busy stranger are not half as fast but ten times slower, so a polluted
repetition is worthless, not merely noisy. Each one is checked against the processor time that others used meanwhile,
counted in ticks of a hundredth of a second: one shorter than ten of them may be refused, or let pass, by chance.
"""

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

FOREIGN = 0.06  # share of the machine that others may use during a repetition that counts
BRIEF = 3.0  # seconds after which `timed` does not repeat, unless told otherwise
TICKS = os.sysconf("SC_CLK_TCK")
Work = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    seconds: float  # the fastest repetition that counts, or the fastest of all if none does
    repeats: int  # repetitions that count
    foreign: float  # share of the machine that others used during the chosen one


def measure(
    work: Work, repeats: int = 3, at_most: int = 12, budget: float = 120.0, prepare: Work = lambda: None
) -> Timing:
    """Time `work` until `repeats` undisturbed repetitions are had, `at_most` were tried, or the budget is spent.

    `prepare` is called before each repetition, outside the clock.
    """
    start, timings = time.monotonic(), []
    while len(timings) < at_most and sum(share <= FOREIGN for _, share in timings) < repeats:
        if timings and time.monotonic() - start > budget:
            break
        prepare()
        wall, busy, own = time.perf_counter(), _busy(), _own()
        work()
        wall, busy, own = time.perf_counter() - wall, _busy() - busy, _own() - own
        timings.append((wall, max(0.0, busy - own) / (wall * os.cpu_count())))
    counted = [timing for timing in timings if timing[1] <= FOREIGN]
    seconds, share = min(counted or timings)
    return Timing(seconds, len(counted), share)


def timed(work: Work, prepare: Work = lambda: None, repeats: int = 5, budget: float = BRIEF) -> dict:
    """Seconds of the clock, and of the processor. Threads that wait for each other spend both, so the latter are worth
    something for one thread alone; they hardly depend on what strangers do.
    """
    spent = []

    def watched() -> None:
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)

    timing = measure(watched, repeats, 2 * repeats, budget, prepare)
    return asdict(timing) | {"processor_seconds": min(spent)}


def wait(patience: float = 300.0) -> float:
    """Wait until the machine has been quiet for a second, at most `patience` seconds; the share that others used."""
    deadline = time.monotonic() + patience
    while True:
        share = measure(lambda: time.sleep(1.0), repeats=1, at_most=1).foreign
        if share <= FOREIGN or time.monotonic() > deadline:
            return share


def _busy() -> float:
    """Processor seconds that all processes have used: user, nice, system, irq, softirq, steal."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / TICKS


def _own() -> float:
    """Processor seconds of this process and of its children that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
