"""Files that are whole or absent: a reader, or a kill at any moment, sees the old content or the new."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, in the same folder; what was written replaces `path` if nothing went wrong."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def creating(path: Path) -> Iterator[Path]:
    """A path to write to; what was written becomes `path` unless there is one by now. So of several processes that
    create a file at once, on one machine or on several, one succeeds, and all find its file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")  # other machines may have the same process id
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        try:
            os.link(part, path)  # fails if it exists, also over NFS
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links, such as that of a memory stick: one process at a time
            if not path.exists():
                os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
