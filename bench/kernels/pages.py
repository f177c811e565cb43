"""Memory that a kernel frees stays with the process, and so is there for the next one.

Activations and gradients of a pass come and go by the megabyte. glibc returns such blocks to the system and fetches
them again page by page: up to half of the time of a small kernel.
"""

import ctypes
import sys
from functools import cache

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of malloc.h
KEPT = 2**30  # bytes of freed memory, at most, that stay at the end of the heap
BLOCK = 2**25  # bytes of one block, at most: glibc allows no more


@cache
def keep_pages() -> None:
    """Once in a process. Where there is no glibc, nothing: other allocators have rules of their own."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt:
        mallopt(TRIM_THRESHOLD, KEPT)
        mallopt(MMAP_THRESHOLD, BLOCK)
