"""GPUs are shared out by lock files: tested with the locks, which need no GPU."""

import subprocess
import sys

import pytest
import torch
from conftest import REPO

from bench.core import device
from bench.core.errors import UserError

HOLD = """
import sys
from pathlib import Path
from bench.core.device import claim
print(claim(sys.argv[1].split(","), Path(sys.argv[2])), flush=True)
sys.stdin.read()
"""


def hold(names, folder):
    """A process that claims a GPU and keeps it until its input closes."""
    command = [sys.executable, "-c", HOLD, names, str(folder)]
    return subprocess.Popen(command, cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_processes_get_different_gpus_and_death_frees_them(tmp_path, capsys):
    holders = [hold("0,1", tmp_path) for _ in range(2)]
    assert {holder.stdout.readline().strip() for holder in holders} == {"0", "1"}
    with pytest.raises(UserError, match="all 2 GPUs are claimed"):
        device.claim(["0", "1"], tmp_path, patience=0.3)
    assert "waiting" in capsys.readouterr().err
    holders[0].kill()
    holders[0].wait()
    third = hold("0,1", tmp_path)
    assert third.stdout.readline().strip() in {"0", "1"}
    for process in (*holders, third):
        process.kill()
        process.communicate()


def test_without_a_gpu_auto_means_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device.choose("auto") == torch.device("cpu")
    with pytest.raises(UserError, match="sees no GPU"):
        device.choose("cuda")


def test_a_scheduler_s_choice_is_taken_without_a_claim(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(device, "claim", lambda names: len(names) - 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    assert device.choose("auto") == torch.device("cuda", 0)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert device.choose("auto") == torch.device("cuda", 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    assert device.choose("auto") == torch.device("cuda", 1)
    assert device.choose("cpu") == torch.device("cpu")
