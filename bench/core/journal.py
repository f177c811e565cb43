"""A journal of an unfinished run: what to continue from, a scratch folder, and the time already spent.

The file is replaced atomically and read as weights only (no code in it can run). It carries the identity of the run
(cell, settings, code digest, device kind); a journal of another identity is not continued, and said to be so.
"""

import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import torch

from bench.core.device import synchronise
from bench.core.files import replacing
from bench.core.peak import peak
from bench.core.progress import say


class Journal:
    """The resume file of one run and its clocks.

    A run counts its steps as it likes: look-ahead's are cycles. Seconds are kept by kind of work and step.
    """

    def __init__(self, path: Path, identity: str, device: torch.device, save_every: int = 10):
        self.path, self.identity, self.device, self.save_every = path, identity, device, save_every
        self.laps: dict[str, dict[int, float]] = {}  # kind of work -> step -> seconds
        self.peaks: dict[str, dict[int, int]] = {}  # the same for bytes
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
        self.laps, self.peaks = saved["laps"], saved["peaks"]
        self.attempts, self.state = saved["attempts"] + 1, saved["state"]

    def absorb(self, path: Path) -> None:
        """Count the time that another job noted in its own file, `path`, as spent for this run."""
        for name, laps in torch.load(path, map_location="cpu", weights_only=True)["laps"].items():
            for step, seconds in laps.items():
                of_name = self.laps.setdefault(name, {})
                of_name[step] = of_name.get(step, 0.0) + seconds

    def save(self, state: dict) -> None:
        """Note that the run has come this far."""
        spent = {name: dict(laps) for name, laps in self.laps.items()}
        if self._running:
            _add(spent, *self._running)
        with replacing(self.path) as part:
            spent = {"laps": spent, "peaks": self.peaks, "attempts": self.attempts}
            torch.save({"identity": self.identity, "state": state} | spent, part)

    def scratch(self) -> Path:
        """A folder for large files, such as a kernel streamed to disk: it survives kills and goes with the record.

        What another identity left there is removed first.
        """
        folder, owner = self._folder(), self._folder() / "identity"
        if folder.is_dir() and not (owner.is_file() and owner.read_text() == self.identity):
            shutil.rmtree(folder)
        if not folder.is_dir():
            folder.mkdir(parents=True)
            with replacing(owner) as part:
                part.write_text(self.identity)
        return folder

    def restart(self, state: dict) -> None:
        """Begin anew from `state`: what is in the scratch folder belongs to what was before."""
        shutil.rmtree(self._folder(), ignore_errors=True)
        self.save(state)

    def _folder(self) -> Path:
        return self.path.with_suffix(".scratch")

    def total(self) -> dict[str, float]:
        """Seconds by kind of work, over all attempts, and their sum."""
        sums = {name: sum(laps.values()) for name, laps in self.laps.items()}
        return {name: round(value, 3) for name, value in (sums | {"total": sum(sums.values())}).items()}

    def per_step(self) -> dict[str, list[float]]:
        """Seconds by kind of work, step by step."""
        return {name: [round(laps[step], 3) for step in sorted(laps)] for name, laps in self.laps.items()}

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        shutil.rmtree(self._folder(), ignore_errors=True)

    @contextmanager
    def clock(self, name: str, step: int):
        """Add the time spent inside to `laps[name][step]`, whole devices' work included. A clock around it stands."""
        synchronise(self.device)
        outer = self._running
        if outer:
            _add(self.laps, *outer)
        self._running = (name, step, time.monotonic())
        try:
            yield
        finally:
            synchronise(self.device)
            _add(self.laps, *self._running)
            self._running = (*outer[:2], time.monotonic()) if outer else None

    @contextmanager
    def weigh(self, name: str, step: int):
        """Note in `peaks[name][step]` by how many bytes the memory in use grew at most inside; nothing if unknown."""
        with peak(self.device) as bytes_:
            yield
        if bytes_:
            self.peaks.setdefault(name, {})[step] = max(bytes_)


def _add(laps: dict[str, dict[int, float]], name: str, step: int, since: float) -> None:
    of_name = laps.setdefault(name, {})
    of_name[step] = of_name.get(step, 0.0) + time.monotonic() - since
