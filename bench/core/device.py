"""Where a run computes: the CPU, or one GPU that no other run on this machine has claimed."""

import fcntl
import os
import tempfile
import time
from pathlib import Path
from typing import IO

import torch

from bench.core.errors import UserError
from bench.core.progress import say

_claims: list[IO] = []  # lock files stay open, and so locked, as long as the process lives


def kind(wanted: str = "auto") -> str:
    """`cuda` or `cpu`; `auto` means a GPU where there is one."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError(
            f"--device cuda: torch {torch.__version__} sees no GPU here; `python -m bench doctor` says more"
        )
    return "cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu"


def choose(wanted: str = "auto") -> torch.device:
    """The device of a run. A single GPU given by a scheduler (CUDA_VISIBLE_DEVICES) is taken as it is."""
    if kind(wanted) == "cpu":
        return torch.device("cpu")
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    if len(visible) == 1:
        return torch.device("cuda", 0)
    return torch.device("cuda", claim(visible or [str(index) for index in range(torch.cuda.device_count())]))


def claim(names: list[str], folder: Path | None = None, patience: float = float("inf")) -> int:
    """Claim one of the named GPUs for this process by a lock file; wait, saying so, while all are taken.

    Returns its position. Locks are per user: they share out the GPUs among the runs of one.
    """
    folder = folder or Path(tempfile.gettempdir()) / f"bench-gpus-{os.getuid()}"
    folder.mkdir(parents=True, exist_ok=True)
    started, told = time.monotonic(), False
    while True:
        for index, name in enumerate(names):
            file = (folder / f"{name}.lock").open("a")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
            else:
                _claims.append(file)
                return index
        if time.monotonic() - started >= patience:
            raise UserError(f"all {len(names)} GPUs are claimed by other runs (locks in {folder})")
        if not told:
            say(f"all {len(names)} GPUs are claimed by other runs; waiting (snakemake --resources gpu=... avoids this)")
            told = True
        time.sleep(0.2)


def settle(device: torch.device, threads: int) -> None:
    """Make results repeatable on this device: fixed threads, deterministic kernels, full float32."""
    torch.set_num_threads(threads)
    if device.type == "cuda":  # the CPU's kernels are repeatable as they are, and this import costs seconds
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is repeatable only with a fixed workspace
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.allow_tf32 = False  # the default would round convolutions to ten bits of mantissa
        torch.cuda.set_device(device)


def synchronise(device: torch.device) -> None:
    """Wait until the device is idle, so that a clock read next counts all the work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
