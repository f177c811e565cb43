"""Where a run computes: the CPU, or one GPU that no other run on this machine has claimed."""

import fcntl
import os
import tempfile
import time
from pathlib import Path
from typing import IO

import torch

from bench.errors import UserError
from bench.progress import say

_claims: list[IO] = []  # lock files stay open, and so locked, as long as the process lives


def choose(wanted: str = "auto") -> torch.device:
    """`auto`: a GPU where there is one. A GPU given by a scheduler (CUDA_VISIBLE_DEVICES) is taken as it is."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError(
            f"--device cuda: torch {torch.__version__} sees no GPU here; `python -m bench doctor` says more"
        )
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        return torch.device("cuda", 0)
    return torch.device("cuda", claim(torch.cuda.device_count()))


def claim(count: int, folder: Path | None = None, patience: float = float("inf")) -> int:
    """Claim one of `count` GPUs for this process by a lock file; wait, saying so, while all are taken."""
    folder = folder or Path(tempfile.gettempdir())
    started, told = time.monotonic(), False
    while True:
        for index in range(count):
            file = (folder / f"bench-gpu-{index}.lock").open("a")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
            else:
                _claims.append(file)
                return index
        if time.monotonic() - started >= patience:
            raise UserError(f"all {count} GPUs of this machine are claimed by other runs ({folder}/bench-gpu-*.lock)")
        if not told:
            say(f"all {count} GPUs are claimed by other runs; waiting (snakemake --resources gpu={count} avoids this)")
            told = True
        time.sleep(0.2)


def settle(device: torch.device, threads: int) -> None:
    """Make results repeatable on this device: fixed threads, deterministic kernels."""
    torch.set_num_threads(threads)
    if device.type == "cuda":  # the CPU's kernels are repeatable as they are, and this import costs seconds
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is repeatable only with a fixed workspace
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False
        torch.cuda.set_device(device)


def synchronise(device: torch.device) -> None:
    """Wait until the device is idle, so that a clock read next counts all the work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
