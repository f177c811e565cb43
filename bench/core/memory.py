"""How much memory this process may still take, which decides the tiles of large kernels."""

import os
from collections.abc import Iterator
from pathlib import Path


def free_memory(root: Path = Path("/")) -> int:
    """Bytes that this process may still take: of the machine, and of its cgroup, which is what schedulers limit."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return min([free, *_left_by_cgroups(root)])


def _left_by_cgroups(root: Path) -> Iterator[int]:
    """What is left below the memory limits of this process' cgroup (version 2) and of those around it."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
        own = next(line.removeprefix("0::/") for line in lines if line.startswith("0::/"))
    except (OSError, StopIteration):
        return
    top = root / "sys/fs/cgroup"
    for group in (top / own, *(top / parent for parent in Path(own).parents)):
        try:
            most, used = ((group / name).read_text().strip() for name in ("memory.max", "memory.current"))
            counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):  # not in the outermost
            continue
        if most != "max":
            yield max(0, int(most) - int(used) + int(counts.get("inactive_file", 0)))  # cached files make room
