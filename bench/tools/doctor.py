"""What this machine has, what is missing, and what to type."""

import importlib.metadata
import os
import shutil
import sys
from pathlib import Path

import numpy as np

from bench.core import machine, memory, registry, study
from bench.core.config import ROOT

try:
    import torch
except ImportError:  # then say so: that is what this command is for
    torch = None


def report(config: dict) -> str:
    lines = [
        f"python      {sys.version.split()[0]}",
        _packages(),
        f"processor   {machine.processor()}",
    ]
    lines += [
        f"cores       {len(os.sched_getaffinity(0))}",
        _memory(),
        f"free disk   {shutil.disk_usage('.').free / 2**30:.0f} GiB",
    ]
    lines += [_gpu(), _slurm(), _git(), f"scale       {config['scale']}"]
    rooms = [study.load(name) for name in config["studies"]]
    uses = [room.uses(cell) for room in rooms for cell in room.cells(config)]
    names = sorted({name for used in uses for name in used.get("datasets", ())})
    return "\n".join(lines + [_dataset(name, config["data"]["root"]) for name in names] + _locks())


def _packages() -> str:
    pins = [line.split("==") for line in (ROOT / "workflow/envs/requirements.txt").read_text().split() if "==" in line]
    wrong = []
    for name, version in pins:
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "nothing"
        if found.split("+")[0] != version:
            wrong.append(f"{name} {version} (found {found})")
    if wrong:
        return f"packages    {len(wrong)} not as pinned: {', '.join(wrong)}; type: make install"
    return f"packages    all {len(pins)} at their pinned versions, torch {importlib.metadata.version('torch')}"


def _memory() -> str:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"memory      {total / 2**30:.0f} GiB, {memory.free_memory() / 2**30:.0f} GiB free"


def _gpu() -> str:
    if torch is None:
        return "GPU         unknown: torch is not installed; type: make install"
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        return f"GPU         {', '.join(names)}; runs at the same time claim different ones"
    if torch.version.cuda is None:
        return (
            "GPU         none: this torch is a CPU build; if there is a GPU, install the CUDA build of the same version"
        )
    return f"GPU         none seen by torch for CUDA {torch.version.cuda}; check nvidia-smi and CUDA_VISIBLE_DEVICES"


def _slurm() -> str:
    if shutil.which("sbatch"):
        return "Slurm       yes; edit profiles/slurm/config.yaml, then: snakemake --workflow-profile profiles/slurm"
    return "Slurm       no sbatch here; other schedulers: profiles/cluster-generic"


def _git() -> str:
    state = machine.git_state()
    if state is None:
        return "git         not a checkout: records will not say which commit made them"
    return f"git         {state['commit'][:12]}{', with uncommitted changes' if state['dirty'] else ''}"


def _dataset(name: str, root: str) -> str:
    path = Path(root) / f"{name}.npz"
    if path.is_file():
        with np.load(path, allow_pickle=False, mmap_mode="r") as arrays:
            sizes = len(arrays["y_train"]), len(arrays["y_test"])
        whole = sizes == registry.components("datasets")[name].constants["SIZES"]
        return f"data        {path}: {sizes[0]:,} train / {sizes[1]:,} test{'' if whole else ', PARTIAL'}"
    return f"data        {path}: missing; the workflow makes it, or type: python -m bench data {name} --root {root}"


def _locks() -> list[str]:
    """A lock Snakemake left behind when it was killed, the commonest thing that stops a restart."""
    if not any(Path(".snakemake/locks").glob("*")):
        return []
    return ["workflow    locked: another snakemake runs here, or one was killed; if killed, type: snakemake --unlock"]
