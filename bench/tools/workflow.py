"""Snakemake as a process of its own: its text in a log file, read as it grows; stopped whole, with all its jobs."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

TICK = 0.5  # seconds between two looks at the log
PATIENCE = 20.0  # seconds in which an interrupted run may stop by itself
NOISE = ("Using workflow specific profile", "Assuming unrestricted shared filesystem")


@dataclass
class Run:
    """A run under way, or over."""

    child: subprocess.Popen
    text: BinaryIO

    def lines(self) -> Iterator[list[str]]:
        """What has been written since the last look, maybe nothing, until the run is over."""
        rest = b""
        while True:
            over = self.child.poll() is not None  # asked first, so that its last words are read
            *whole, rest = (rest + self.text.read()).split(b"\n")
            whole += [rest] if over and rest else []
            yield [line.decode(errors="replace") for line in whole]
            if over:
                return
            with suppress(subprocess.TimeoutExpired):
                self.child.wait(TICK)

    def code(self) -> int:
        """Its exit code, as a shell would give it."""
        return self.child.returncode if self.child.returncode >= 0 else 128 - self.child.returncode


@contextmanager
def running(words: list[str], log: Path) -> Iterator[Run]:
    """Start `snakemake <words>`, its text added to `log`; leaving before it is over stops it and every job of it.

    It gets a process group of its own. Ctrl-C in a terminal then reaches this process alone, which passes it on to all
    of the group once: Snakemake that hears it twice drops its cleaning up, and Snakemake that hears it alone waits for
    its jobs to end.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "snakemake", *words]
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # jobs say `python`
    with log.open("ab") as sink, log.open("rb") as text, _also_interrupting(signal.SIGTERM, signal.SIGHUP):
        text.seek(0, os.SEEK_END)
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=_hear_interrupts,
        )
        try:
            yield Run(child, text)
        finally:
            if child.poll() is None or child.returncode < 0:  # killed alone, it leaves its jobs behind
                _stop(child)


def _hear_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what a script starts with `&` ignores them


@contextmanager
def _also_interrupting(*signals: signal.Signals) -> Iterator[None]:
    """Let further signals be an interrupt, unless they are ignored, as under nohup."""
    before = {each: signal.getsignal(each) for each in signals}
    for each in (each for each, handler in before.items() if handler is signal.SIG_DFL):
        signal.signal(each, signal.default_int_handler)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _stop(child: subprocess.Popen) -> None:
    """Interrupt the group; kill what is left of it. An impatient second Ctrl-C would leave Snakemake's lock behind."""
    deaf = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        child.wait(PATIENCE)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for each, handler in deaf.items():
        signal.signal(each, handler)


def failing(text: list[str], most: int = 60, wide: int = 1200) -> list[str]:
    """The part of Snakemake's text that says what went wrong: its errors, or else all that it said after its head."""
    starts = [number for number, line in enumerate(text) if line.startswith("Error in ")]
    if starts:
        found = [line for start in starts for line in _shortened(_block(text[start:]))]
    else:
        planned = [number for number, line in enumerate(text) if line.startswith("Building DAG of jobs")]
        found = [line for line in text[planned[-1] + 1 if planned else 0 :] if line and not line.startswith(NOISE)]
        found = found[-most:]
    more = [f"... {len(found) - most} more lines in the log"] if len(found) > most else []
    return [line if len(line) <= wide else line[:wide] + " ..." for line in found[:most]] + more


def _block(text: list[str]) -> list[str]:
    """One error: its indented lines and, where Snakemake shows it, the log of the job between two rulers."""
    end = next((number for number, line in enumerate(text[1:], 1) if not line.startswith(" ")), len(text))
    if end < len(text) and text[end].startswith("Logfile "):
        rulers = [number for number, line in enumerate(text[end:], end) if line.startswith("=====")]
        end = rulers[1] + 1 if len(rulers) > 1 else end + 1
    return text[:end]


def _shortened(block: list[str], head: int = 10, tail: int = 20) -> list[str]:
    return block if len(block) <= head + tail + 1 else [*block[:head], "...", *block[-tail:]]
