"""A run that one can watch: how far it is, from Snakemake's text, and one line that says so.

The text, not the records on disk, says how much there is to do: a record that must be made again is there already.
"""

import re
import shutil
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import TextIO

FEW = 3  # cells, before which nothing is said of the time left
QUIET = 60.0  # seconds between two lines of a log

STARTED = re.compile(r"(?:local)?rule (\S+):$")
BROKEN = re.compile(r"Error in rule (\S+):$")
FINISHED = re.compile(r"Finished jobid: (\d+) \(Rule: (\S+)\)")
JOB = re.compile(r"    jobid: (\d+)$")
CELL = re.compile(r"    wildcards: study=([^,]+), cell=(\S+)$")
COUNT = re.compile(r"(\S+) +(\d+)$")


class Progress:
    """What Snakemake has said so far. Times are seconds on any clock, the same for all calls."""

    def __init__(self, cells: int | None, figures: Collection[str], now: float) -> None:
        """`cells`: how many the scale has, or None where only part of it is asked for."""
        self.cells, self.figures = cells, figures
        self.begun, self.first_cell = now, None
        self.planned: Counter[str] = Counter()  # jobs by rule
        self.done: Counter[str] = Counter()
        self.idle = False  # nothing is to be done
        self.named: dict[str, tuple[str, str]] = {}  # job -> study and cell
        self.failed: list[str] = []  # jobs
        self.stage = "planning"
        self._counting, self._block, self._job = False, "", ""

    def read(self, lines: Iterable[str], now: float) -> None:
        for line in lines:
            self._read(line, now)

    def _read(self, line: str, now: float) -> None:
        if line == "Job stats:" or (self._counting and not line):
            self._counting = bool(line)
        elif self._counting and (found := COUNT.match(line)):
            self.planned[found[1]] = int(found[2])
        elif found := STARTED.match(line):
            self._block = found[1]
            self.stage = self._stage(found[1])
            if found[1] == "cell" and self.first_cell is None:
                self.first_cell = now
        elif BROKEN.match(line):
            self._block = "error"
        elif found := JOB.match(line):
            self._job = found[1]
            if self._block == "error" and self._job not in self.failed:
                self.failed.append(self._job)
        elif (found := CELL.match(line)) and self._block == "cell":
            self.named[self._job] = (found[1], found[2])
            self.stage = found[1]
        elif found := FINISHED.match(line):
            self.done[found[2]] += 1
            self.failed = [job for job in self.failed if job != found[1]]  # tried again
        elif line.startswith("Nothing to be done"):
            self.idle = True

    def _stage(self, rule: str) -> str:
        if rule in self.figures:
            return "drawing"
        if rule == "claims" or rule.endswith("_tables"):
            return "tables"
        return "data" if rule == "data" else self.stage  # a cell says its study; `all` and the like do nothing

    def failed_cells(self) -> set[tuple[str, str]]:
        return {self.named[job] for job in self.failed if job in self.named}

    def left(self, now: float) -> float | None:
        """Seconds until all cells are done, at the pace of those that this run has finished."""
        if self.done["cell"] < FEW or self.first_cell is None:
            return None
        broken = len(self.failed_cells())
        waiting = self.planned["cell"] - self.done["cell"] - broken
        return waiting * (now - self.first_cell) / (self.done["cell"] + broken)

    def line(self, now: float, stage: str = "") -> str:
        """`lookahead: cells 12 of 34, 1 failed, 0:03:10 gone, about 5 min left`; a `stage` of one's own is the last."""
        parts, total = [], self.planned["cell"] if self.cells is None else self.cells
        if total and (self.planned or self.idle):
            parts.append(f"cells {total - self.planned['cell'] + self.done['cell']} of {total}")
        drawn, figures = (sum(counts[name] for name in self.figures) for counts in (self.done, self.planned))
        if figures and (stage or self.stage == "drawing"):
            parts.append(f"figures {drawn} of {figures}")
        parts += [f"{len(self.failed)} failed"] if self.failed else []
        gone = timedelta(seconds=int(now - self.begun))
        parts.append(f"in {gone}" if stage else f"{gone} gone")
        if not stage and (left := self.left(now)):
            parts.append(f"about {roughly(left)} left")
        return f"{stage or self.stage}: " + ", ".join(parts)


class Line:
    """One line, written over and over on a terminal; elsewhere a line a minute."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.terminal = stream, stream.isatty()
        self.width, self.said = 0, float("-inf")

    def show(self, text: str, now: float) -> None:
        if self.terminal:
            self._over(text)
        elif now - self.said >= QUIET:
            print(text, file=self.stream, flush=True)
            self.said = now

    def end(self, text: str = "") -> None:
        """The last words in place of the line; without any, the line is wiped."""
        if self.terminal:
            self._over("")
        if text:
            print(text, file=self.stream, flush=True)

    def _over(self, text: str) -> None:
        room = shutil.get_terminal_size().columns - 1
        while len(text) > room and ", " in text:
            text = text.rpartition(", ")[0]  # less, rather than half a number
        text = text[: max(room, 0)]
        blank = " " * (min(self.width, room) - len(text))
        self.stream.write(f"\r{text}{blank}" + ("" if text else "\r"))
        self.stream.flush()
        self.width = len(text)


def roughly(seconds: float) -> str:
    """A length of time as one would say it."""
    for size, unit, most in ((1, "s", 90), (60, "min", 90), (3600, "h", 48)):
        if seconds < size * most:
            return f"{max(1, round(seconds / size))} {unit}"
    return f"{round(seconds / 86400)} days"
