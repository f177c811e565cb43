"""How a record was made: times, memory, machine, versions, code. Volatile facts, never part of the record itself."""

import datetime
import importlib.metadata
import os
import platform
import resource
import socket
import sys
from pathlib import Path

import torch

from bench.core import machine

PACKAGES = ("numpy", "scikit-learn", "scipy", "torch", "torchvision")


def facts(device: torch.device) -> dict:
    """Everything about this process and machine that could matter to someone comparing runs."""
    return {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "processor": machine.processor(),
        "device": {"kind": device.type, "name": device_name(device)},
        "threads": torch.get_num_threads(),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "peak_device_memory_mb": _device_memory(device),
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "git": machine.git_state(),
        "slurm_job": os.environ.get("SLURM_JOB_ID"),
    }


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else machine.processor()


def _device_memory(device: torch.device) -> float | None:
    return round(torch.cuda.max_memory_allocated(device) / 2**20, 1) if device.type == "cuda" else None
