"""How much memory a piece of work takes at most: a fact for the account beside a record."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def peak(device) -> Iterator[list[int]]:
    """A list that holds, afterwards, the bytes by which the memory in use grew at most inside; empty if none can tell.

    On the CPU it is the resident memory, whose highest mark Linux resets on demand; on a GPU, torch's own count.
    """
    found: list[int] = []
    if device.type == "cuda":
        from torch import cuda

        cuda.reset_peak_memory_stats(device)
        before = cuda.memory_allocated(device)
        yield found
        found.append(cuda.max_memory_allocated(device) - before)
        return
    before = None
    with suppress(OSError, ValueError):  # not Linux
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS:")
    yield found
    if before is not None:
        found.append(max(0, _status("VmHWM:") - before))


def _status(field: str) -> int:
    """Bytes of this process, as Linux counts them."""
    words = Path("/proc/self/status").read_text().split()
    return int(words[words.index(field) + 1]) * 1024
