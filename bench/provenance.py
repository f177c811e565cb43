"""How a record was made: times, memory, machine, versions, code. Volatile facts, never part of the record itself."""

import datetime
import importlib.metadata
import os
import platform
import resource
import socket
import subprocess
import sys
from pathlib import Path

import torch

PACKAGES = ("numpy", "scikit-learn", "scipy", "torch", "torchvision")


def facts(device: torch.device) -> dict:
    """Everything about this process and machine that could matter to someone comparing runs."""
    return {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "processor": _processor(),
        "device": {"kind": device.type, "name": device_name(device)},
        "threads": torch.get_num_threads(),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "peak_device_memory_mb": _device_memory(device),
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "git": git_state(),
        "slurm_job": os.environ.get("SLURM_JOB_ID"),
    }


def git_state() -> dict | None:
    """Commit and whether the tree had changes; None outside a checkout."""

    def git(*words: str) -> str:
        here = Path(__file__).parent
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.CalledProcessError):
        return None


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()


def _device_memory(device: torch.device) -> float | None:
    return round(torch.cuda.max_memory_allocated(device) / 2**20, 1) if device.type == "cuda" else None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
