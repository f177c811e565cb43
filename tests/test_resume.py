"""A run killed at any moment and started again ends in the same bytes as an unbroken one."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from conftest import REPO, bench, run_words

from bench.core import paths
from bench.core.journal import Journal
from bench.core.locks import is_running, sole_run

# Kill this process for good (SIGKILL, nothing can be cleaned up) at the n-th call of a function.
SABOTAGE = """
import importlib, os, signal, sys
module, name, count = sys.argv.pop(1), sys.argv.pop(1), int(sys.argv.pop(1))
owner = importlib.import_module(module)
for part in name.split(".")[:-1]:
    owner = getattr(owner, part)
original = getattr(owner, name.split(".")[-1])
calls = 0
def deadly(*words, **more):
    global calls
    calls += 1
    if calls == count:
        if name == "save":  # torch.save(value, path): leave half a file behind
            original(*words, **more)
            os.truncate(words[1], os.path.getsize(words[1]) // 2)
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*words, **more)
setattr(owner, name.split(".")[-1], deadly)
from bench.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
MOMENTS = [
    ("bench.learn.sgd", "SGD.step", 3),  # in the middle of the second epoch, before anything was saved
    ("bench.learn.sgd", "SGD.step", 13),  # in the middle of an epoch of the second cycle
    ("torch", "save", 2),  # in the middle of writing a resume file
    ("os", "fsync", 1),  # the first resume file complete, but perhaps not on the disk
    ("os", "replace", 3),  # a later resume file complete, but not yet in place
    ("bench.strategies", "top", 2),  # while querying
    ("bench.core.records", "write_json", 1),  # all computed, nothing written
    ("bench.core.records", "write_json", 2),  # how it was found written, what was found not
    ("bench.core.journal", "Journal.remove", 1),  # the record written, the resume file still there
]


@pytest.fixture(scope="module")
def unbroken(cell, settings, root, tmp_path_factory):
    out = tmp_path_factory.mktemp("unbroken") / "x.json"
    assert bench(*run_words(cell, settings, root, out)).returncode == 0
    return out.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: f"{moment[1]}-{moment[2]}")
def test_killed_and_started_again(moment, unbroken, cell, settings, root, tmp_path):
    out = tmp_path / "x.json"
    words = run_words(cell, settings, root, out)
    killed = subprocess.run([sys.executable, "-c", SABOTAGE, *map(str, moment), *words], cwd=REPO, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    again = bench(*words)
    assert again.returncode == 0, again.stderr
    assert out.read_bytes() == unbroken
    assert not paths.resume_path(out).exists()
    expected = 1 if moment[1:] in (("SGD.step", 3), ("fsync", 1), ("Journal.remove", 1)) else 2
    assert json.loads((tmp_path / "x.meta.json").read_text())["attempts"] == expected


@pytest.mark.slow
def test_killed_at_arbitrary_times_again_and_again(unbroken, cell, settings, root, tmp_path):
    """No chosen moment: killed some time after it has saved something, three times."""
    slow = settings | {"recipe": settings["recipe"] | {"epochs": 150}}
    out = tmp_path / "x.json"
    words = [sys.executable, "-m", "bench", *run_words(cell, slow, root, out)]
    reference = tmp_path / "reference" / "x.json"
    assert bench(*run_words(cell, slow, root, reference)).returncode == 0
    resume, seen = paths.resume_path(out), 0
    for delay in (0.0, 0.11, 0.23):  # seconds after a sign of new life
        process = subprocess.Popen(words, cwd=REPO, stderr=subprocess.DEVNULL)
        while not resume.exists() or resume.stat().st_mtime_ns == seen:
            assert process.poll() is None, "finished before it was killed"
            time.sleep(0.001)
        time.sleep(delay)
        process.kill()
        process.wait()
        seen = resume.stat().st_mtime_ns
    assert bench(*words[3:]).returncode == 0
    assert json.loads((tmp_path / "x.meta.json").read_text())["attempts"] == 4
    assert out.read_bytes() == reference.read_bytes()


@pytest.mark.slow
def test_killed_between_account_and_record_of_changed_settings(unbroken, cell, settings, root, tmp_path):
    """An older record in the way is not taken for the new one."""
    out = tmp_path / "x.json"
    older = settings | {"recipe": settings["recipe"] | {"epochs": 1}}
    assert bench(*run_words(cell, older, root, out)).returncode == 0
    words = run_words(cell, settings, root, out)
    moment = ("bench.core.records", "write_json", "2")
    killed = subprocess.run([sys.executable, "-c", SABOTAGE, *moment, *words], cwd=REPO, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert bench(*words).returncode == 0
    assert out.read_bytes() == unbroken


@pytest.mark.slow
def test_another_run_s_resume_file_is_not_continued(cell, settings, root, tmp_path, unbroken):
    out = tmp_path / "x.json"
    torch.save({"identity": "another", "seconds": {}, "attempts": 7, "state": {}}, paths.resume_path(out))
    result = bench(*run_words(cell, settings, root, out))
    assert "starting afresh" in result.stderr
    assert out.read_bytes() == unbroken


def test_a_resume_file_cannot_run_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "broken-in"),)

    torch.save({"identity": "x", "state": Evil()}, tmp_path / "x.pt")
    journal = Journal(tmp_path / "x.pt", "x", torch.device("cpu"))
    journal.open()
    assert journal.state is None
    assert not (tmp_path / "broken-in").exists()


def test_seconds_add_up_over_attempts(tmp_path):
    first = Journal(tmp_path / "x.pt", "x", torch.device("cpu"))
    with first.clock("train", 0):
        time.sleep(0.05)
        first.save({"at": torch.arange(3)})
        time.sleep(10**-2)  # lost with the kill
    second = Journal(tmp_path / "x.pt", "x", torch.device("cpu"))
    second.open()
    assert second.attempts == 2
    assert 0.05 <= second.laps["train"][0] < first.laps["train"][0]
    with second.clock("train", 0):
        time.sleep(0.02)
    assert second.laps["train"][0] >= 0.07
    assert second.state["at"].tolist() == [0, 1, 2]


@pytest.mark.slow
def test_a_cell_is_computed_by_one_process_at_a_time(tmp_path, cell, settings, root):
    lock = paths.lock_path(tmp_path / "x.json")
    assert not is_running(lock)
    with sole_run(lock):
        assert is_running(lock)
        words = [sys.executable, "-m", "bench", *run_words(cell, settings, root, tmp_path / "x.json")]
        waiting = subprocess.Popen(words, cwd=REPO, stderr=subprocess.PIPE, text=True)
        line = waiting.stderr.readline()
        assert f"process {os.getpid()} on" in line
        assert "waiting" in line
        assert not (tmp_path / "x.json").exists()
    waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert (tmp_path / "x.json").exists()
    assert not is_running(lock)


@pytest.mark.slow
def test_a_finished_cell_is_not_computed_again(tmp_path, cell, settings, root):
    words = run_words(cell, settings, root, tmp_path / "x.json")
    assert bench(*words).returncode == 0
    before = (tmp_path / "x.json").stat().st_mtime_ns
    assert "done already" in bench(*words).stderr
    assert (tmp_path / "x.json").stat().st_mtime_ns == before


def test_a_scratch_folder_survives_a_kill_and_goes_with_the_record(tmp_path):
    path = tmp_path / "x.pt"
    first = Journal(path, "x", torch.device("cpu"))
    (first.scratch() / "kernel.npy").write_bytes(b"half")
    again = Journal(path, "x", torch.device("cpu"))  # no save in between: the scratch needs none
    again.open()
    assert (again.scratch() / "kernel.npy").read_bytes() == b"half"
    other = Journal(path, "other settings", torch.device("cpu"))
    assert not (other.scratch() / "kernel.npy").exists()
    (other.scratch() / "kernel.npy").write_bytes(b"whole")
    other.save({})
    other.remove()
    assert list(tmp_path.iterdir()) == []


def test_beginning_anew_clears_the_scratch_folder(tmp_path):
    journal = Journal(tmp_path / "x.pt", "x", torch.device("cpu"))
    (journal.scratch() / "kernel.npy").write_bytes(b"of other weights")
    journal.restart({"from": "the start"})
    assert not (journal.scratch() / "kernel.npy").exists()
    again = Journal(tmp_path / "x.pt", "x", torch.device("cpu"))
    again.open()
    assert again.state == {"from": "the start"}


def test_files_of_the_user_s_own_are_left_alone(tmp_path):
    mine = tmp_path / "model.pt"
    mine.write_text("mine")
    journal = Journal(paths.resume_path(tmp_path / "model.json"), "x", torch.device("cpu"))
    journal.save({})
    journal.scratch()
    journal.remove()
    assert mine.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [mine]


def test_a_scratch_folder_without_an_owner_is_not_trusted(tmp_path):
    journal = Journal(tmp_path / "x.pt", "x", torch.device("cpu"))
    (tmp_path / "x.scratch").mkdir()
    (tmp_path / "x.scratch/kernel.npy").write_bytes(b"whose?")
    assert not (journal.scratch() / "kernel.npy").exists()
