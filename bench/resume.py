"""A journal of an unfinished run: what to continue from, and the time already spent.

The file is replaced atomically and read as weights only (no code in it can run). It carries the identity of the run
(cell, settings, code digest, device kind); a journal of another identity is not continued, and said to be so.
"""

import time
from contextlib import contextmanager
from pathlib import Path

import torch

from bench.device import synchronise
from bench.files import replacing
from bench.progress import say


class Journal:
    """The resume file of one run and its clocks."""

    def __init__(self, path: Path, identity: str, device: torch.device, save_every: int = 10):
        self.path, self.identity, self.device, self.save_every = path, identity, device, save_every
        self.laps: dict[str, dict[int, float]] = {}  # kind of work -> cycle -> seconds
        self.attempts = 1
        self.state: dict | None = None  # where to continue, None for a fresh start
        self._running: tuple[str, int, float] | None = None

    def open(self) -> None:
        """Find what an earlier attempt left."""
        if not self.path.is_file():
            return
        try:
            saved = torch.load(self.path, map_location=self.device, weights_only=True)
        except Exception as error:  # whatever a foreign or damaged file raises, the run can start afresh
            say(f"resume file {self.path} cannot be read ({type(error).__name__}); starting afresh")
            return
        if not isinstance(saved, dict) or saved.get("identity") != self.identity:
            say(f"resume file {self.path} belongs to other settings, code or device; starting afresh")
            return
        self.laps, self.attempts, self.state = saved["laps"], saved["attempts"] + 1, saved["state"]

    def save(self, state: dict) -> None:
        """Note that the run has come this far."""
        spent = {name: dict(laps) for name, laps in self.laps.items()}
        if self._running:
            _add(spent, *self._running)
        with replacing(self.path) as part:
            torch.save({"identity": self.identity, "laps": spent, "attempts": self.attempts, "state": state}, part)

    def total(self) -> dict[str, float]:
        """Seconds by kind of work, over all attempts, and their sum."""
        sums = {name: sum(laps.values()) for name, laps in self.laps.items()}
        return {name: round(value, 3) for name, value in (sums | {"total": sum(sums.values())}).items()}

    def per_cycle(self) -> dict[str, list[float]]:
        """Seconds by kind of work, cycle by cycle."""
        return {name: [round(laps[cycle], 3) for cycle in sorted(laps)] for name, laps in self.laps.items()}

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    @contextmanager
    def clock(self, name: str, cycle: int):
        """Add the time spent inside to `laps[name][cycle]`, whole devices' work included."""
        synchronise(self.device)
        self._running = (name, cycle, time.monotonic())
        try:
            yield
        finally:
            synchronise(self.device)
            _add(self.laps, *self._running)
            self._running = None


def _add(laps: dict[str, dict[int, float]], name: str, cycle: int, since: float) -> None:
    of_name = laps.setdefault(name, {})
    of_name[cycle] = of_name.get(cycle, 0.0) + time.monotonic() - since
