"""A cell is computed by one process at a time: a lock file held as long as the process lives, however it ends."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bench.core.progress import say


@contextmanager
def sole_run(path: Path) -> Iterator[None]:
    """Hold the lock of a cell; wait, saying for whom, while another process computes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            say(f"another process ({file.read().strip() or 'unknown'}) is computing this cell; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:  # some cluster file systems have no locks
            say(f"{path} cannot be locked ({error.strerror}); going on without")
        _sign(file)
        yield


def _sign(file: IO) -> None:
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()


def is_running(path: Path) -> bool:
    """Whether some process holds the lock of a cell."""
    if not path.is_file():
        return False
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return False
