"""What can be told of this machine and checkout without torch."""

import platform
import subprocess
from pathlib import Path


def git_state() -> dict | None:
    """Commit and whether the code had changes or new files; None outside a checkout."""

    def git(*words: str) -> str:
        here = Path(__file__).parent
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "."))}
    except (OSError, subprocess.CalledProcessError):
        return None


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
