"""The cluster profiles on a real one-node Slurm, booted here for the test. Skipped where Slurm is not installed.

On Debian: apt install slurmctld slurmd slurm-client munge. Nothing outside a temporary folder is touched.
"""

import getpass
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import yaml
from conftest import REPO, TINY, tiny_with
from test_workflow import copy_of

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "sinfo", "scancel")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(shutil.which(program, path=PATH) is None for program in PROGRAMS),
        reason="needs Slurm: apt install slurmctld slurmd slurm-client munge",
    ),
]

SLURM_CONF = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/finished.txt
MinJobAge=300
EnforcePartLimits=ALL
KillWait=2
ReturnToService=2
MpiDefault=none
MailProg=/bin/true
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=64000 Gres=gpu:2 State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE
PartitionName=gpu Nodes={host} MaxTime=INFINITE
"""


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def cluster():
    """The environment in which sbatch reaches a private cluster with two partitions and two (pretended) GPUs."""
    # Not tmp_path: munge wants a short path whose every folder anyone may enter.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)
    for name in ("munge", "state", "spool", "shim", "dev"):
        (folder / name).mkdir(mode=0o755)
    host = socket.gethostname().split(".")[0]
    words = {"folder": folder, "host": host, "ports": free_ports(2), "user": getpass.getuser()}
    (folder / "slurm.conf").write_text(SLURM_CONF.format(**words))
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    for index in range(2):
        (folder / f"dev/gpu{index}").touch()
    (folder / "gres.conf").write_text(f"NodeName={host} Name=gpu File={folder}/dev/gpu[0-1]\n")
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(1024))
    # Jobs of the executor plugin lose SLURM_CONF on the way to their inner srun; this one puts it back.
    shim = folder / "shim/srun"
    shim.write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which("srun")} "$@"\n')
    shim.chmod(0o755)
    environment = os.environ | {
        "SLURM_CONF": f"{folder}/slurm.conf",
        "PATH": f"{folder}/shim:{Path(sys.executable).parent}:{PATH}",
    }
    munge = ["--socket", f"{folder}/munge/socket", "--key-file", str(key), "--pid-file", f"{folder}/munged.pid"]
    munge += ["--log-file", f"{folder}/munged.log", "--seed-file", f"{folder}/munged.seed", "--origin", "127.0.0.1"]
    daemons = (["munged", *munge], ["slurmctld", "-c"], ["slurmd"])
    try:
        for daemon in daemons:
            subprocess.run(daemon, env=environment, check=True, capture_output=True, timeout=30)
        for _ in range(60):
            state = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True).stdout
            if state.split()[:1] == ["idle"]:
                break
            time.sleep(0.5)
        else:
            pytest.skip(f"Slurm did not come up: {(folder / 'slurmd.log').read_text()[-500:]}")
        yield environment, folder
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"Slurm did not start: {error}")
    finally:
        subprocess.run(["scancel", "--user", words["user"]], env=environment, capture_output=True)
        for name in ("slurmd", "slurmctld", "munged"):
            pid = folder / f"{name}.pid"
            if pid.is_file():
                subprocess.run(["kill", pid.read_text().strip()], capture_output=True)
        time.sleep(1)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("profile", ["slurm", "cluster-generic"])
def test_a_scale_runs_on_slurm_with_the_shipped_profile(cluster, profile, tmp_path):
    environment, folder = cluster
    tree = copy_of(REPO, tmp_path / "tree")
    panel = TINY["lookahead"]["panels"]["thesis-2.2a"] | {"strategies": ["random", "margin"]}
    small = tiny_with(seeds=[0], panels={"thesis-2.2a": panel})
    (tree / "config/tiny.yaml").write_text(yaml.safe_dump(small))
    # Both ways to choose a configuration have to reach the jobs, which read the Snakefile again.
    chosen = {"slurm": ["--config", "scale=tiny"], "cluster-generic": ["--configfile", "config/tiny.yaml"]}
    command = [sys.executable, "-m", "snakemake", "lookahead_tables", "--workflow-profile", f"profiles/{profile}"]
    command += [*chosen[profile], "--latency-wait", "5", "--set-threads", "cell=1"]
    if profile == "slurm":  # no accounting here, and no patience
        command += ["--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "1"]
    else:
        command += ["--max-status-checks-per-second", "10", "--seconds-between-status-checks", "1"]
    result = subprocess.run(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=400
    )
    assert result.returncode == 0, result.stdout
    assert f"Using workflow specific profile profiles/{profile}" in result.stdout
    metas = [yaml.safe_load(path.read_text()) for path in (tree / "results/tiny/runs").rglob("*.meta.json")]
    assert len(metas) == 2
    assert all(meta["slurm_job"] for meta in metas)  # really ran as jobs
    assert (tree / "results/tiny/tables/lookahead-summary.csv").is_file()
    finished = (folder / "finished.txt").read_text()
    assert "Partition=gpu" in finished
    assert "mem=8000M" in finished
