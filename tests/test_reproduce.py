"""`python -m bench reproduce` and make, as a person meets them: in a log, on a terminal, when things go wrong."""

import fcntl
import io
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
import yaml
from conftest import REPO
from test_workflow import copy_of

from bench.core import paths, study
from bench.tools import reproduce, watch, workflow

PANEL = {"dataset": "digits", "net": "wrn", "width": 8, "recipe": "l2", "strategies": ["random", "margin"]}
TINY = {
    "scale": "tiny",
    "lookahead": {
        "seeds": [0],
        "recipes": {"l2": {"epochs": 2, "batch": 8, "lr": 0.5}},
        "protocol": {"digits": {"initial": 12, "query": 5, "subset": 40, "cycles": 2}},
        "panels": {"thesis-2.2a": PANEL},
    },
}
HEAD = "scale tiny, 2 cells; Snakemake's own text goes to results/tiny/logs/snakemake.log"

UNLOCK = "If nothing else runs here, type `python -m snakemake --unlock`, then the same command."


def with_recipe(**recipe) -> dict:
    return TINY | {"lookahead": TINY["lookahead"] | {"recipes": {"l2": TINY["lookahead"]["recipes"]["l2"] | recipe}}}


def copy_of_sources(target: Path, config: dict = TINY) -> Path:
    copy_of(REPO, target)
    (target / "tiny.yaml").write_text(yaml.safe_dump(config))
    return target


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "bench", "reproduce", "--scale", "tiny.yaml", "--cores", "2", *words]


def run(tree: Path, *words: str) -> tuple[int, list[str]]:
    """Exit code and lines of a run whose output is no terminal."""
    result = subprocess.run(
        command(*words), cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
    )
    return result.returncode, result.stdout.splitlines()


def run_on_terminal(tree: Path, *words: str, columns: int = 80, interrupt_at: str | None = None) -> tuple[int, str]:
    """Exit code and all that a terminal was sent; Ctrl-C is typed soon after a text has appeared in it."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tree)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.execv(sys.executable, command(*words))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    seen, end = "", time.monotonic() + 300
    while time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            try:
                seen += os.read(terminal, 4096).decode()
            except OSError:  # closed by its other end
                break
        if interrupt_at and interrupt_at in seen:
            time.sleep(4)  # cells are past their imports by then, or not: both must do
            os.write(terminal, b"\x03")
            interrupt_at = None
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seen


def processes_in(tree: Path) -> list[str]:
    """Command lines of processes whose working folder is the tree."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == tree.resolve():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


# What a line says


def block(rule: str, job: int, cell: str = "") -> list[str]:
    wildcards = [f"    wildcards: study=lookahead, cell={cell}"] if cell else []
    return ["[Wed Nov 18 02:36:08 2026]", f"localrule {rule}:", f"    jobid: {job}", *wildcards]


PLAN = ["Job stats:", "job      count", "-----  -----", "cell   8", "thesis-2.2   1", "all   1", "total   10", ""]


def test_the_line_counts_cells_failures_and_time():
    progress = watch.Progress(10, ["thesis-2.2"], now=0)
    assert progress.line(1) == "planning: 0:00:01 gone"
    progress.read([*PLAN, *block("data", 9)], now=2)
    assert progress.line(2) == "data: cells 2 of 10, 0:00:02 gone"
    for job in range(8):
        progress.read(block("cell", job, f"a/seed-{job}"), now=10)
    progress.read(["Finished jobid: 0 (Rule: cell)", "Finished jobid: 1 (Rule: cell)"], now=70)
    assert progress.line(70) == "lookahead: cells 4 of 10, 0:01:10 gone"
    progress.read(
        ["Error in rule cell:", "    message: None", "    jobid: 2", "Finished jobid: 3 (Rule: cell)"], now=80
    )
    # four of eight cells took 240 seconds, so the other four will
    assert progress.line(250) == "lookahead: cells 5 of 10, 1 failed, 0:04:10 gone, about 4 min left"
    assert progress.failed_cells() == {("lookahead", "a/seed-2")}


def test_a_job_that_is_tried_again_and_succeeds_has_not_failed():
    progress = watch.Progress(8, [], now=0)
    progress.read([*PLAN, *block("data", 9), "Error in rule data:", "    jobid: 9"], now=1)
    assert "1 failed" in progress.line(1)
    progress.read([*block("data", 9), "Finished jobid: 9 (Rule: data)"], now=2)
    assert progress.failed == []


def test_the_line_counts_figures_and_only_what_a_target_needs():
    progress = watch.Progress(None, ["thesis-2.2"], now=0)
    progress.read(["Job stats:", "job  count", "thesis-2.2   1", "total   1", "", *block("thesis-2.2", 0)], now=1)
    assert progress.line(1) == "drawing: figures 0 of 1, 0:00:01 gone"
    progress.read(["Finished jobid: 0 (Rule: thesis-2.2)"], now=2)
    assert progress.line(3, "done") == "done: figures 1 of 1, in 0:00:03"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (89, "89 s"), (95, "2 min"), (5000, "83 min"), (7200, "2 h"), (2e5, "2 days")]
)
def test_lengths_of_time_as_one_says_them(seconds, words):
    assert watch.roughly(seconds) == words


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_narrow_terminal_gets_fewer_words_and_never_two_lines(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    line = watch.Line(terminal := Terminal())
    line.show("lookahead: cells 12 of 34, 1 failed, 0:03:10 gone", 0)
    line.show("tables: cells 34 of 34", 0)
    line.end("done")
    assert terminal.getvalue().split("\r") == [
        "",
        "lookahead: cells 12 of 34",
        "tables: cells 34 of 34   ",
        " " * 22,
        "done\n",
    ]


def test_a_log_gets_a_line_a_minute():
    line = watch.Line(log := io.StringIO())
    for second in range(130):
        line.show(f"{second} gone", second)
    line.end("done")
    assert log.getvalue().split("\n") == ["0 gone", "60 gone", "120 gone", "done", ""]


def test_the_failing_part_is_the_errors_and_the_end_of_their_logs():
    error = ["Error in rule cell:", "    jobid: 4", "Logfile a.log:", "=" * 80, *map(str, range(500)), "why", "=" * 80]
    text = ["Building DAG of jobs...", *block("cell", 4), *error, "[Wed Nov 18]", "Finished jobid: 1 (Rule: cell)"]
    part = workflow.failing(text)
    assert part[:2] == error[:2]
    assert part[-2:] == error[-2:]
    assert "..." in part
    assert len(part) < 40
    assert len(workflow.failing(9 * text)) == 61
    said = ["Using workflow specific profile x", "Building DAG of jobs...", "MissingRuleException:", "No rule"]
    assert workflow.failing(said) == said[2:]
    assert workflow.failing(["Using workflow specific profile x", "x.yaml: unknown key"]) == ["x.yaml: unknown key"]


def test_the_demonstration_says_what_it_is_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for scale, verdict in (("quick", "not comparable"), ("cpu", "supported")):
        ledger = paths.tables_folder(scale) / "claims.csv"
        ledger.parent.mkdir(parents=True)
        ledger.write_text(f"study,claim,verdict\nlookahead,a,{verdict}\nlookahead,b,not measured\n")
    lines = list(reproduce._outcome("quick", Path("report.html")))
    titles = [line for line in lines if line.startswith("claims at")]
    assert titles == [f"claims at {name}, by study and verdict" for name in ("scale quick", "the committed scale cpu")]
    assert [line.split() for line in lines if line.startswith("lookahead")] == [
        "lookahead 0 0 0 1 1".split(),
        "lookahead 1 0 0 0 1".split(),
    ]
    assert lines[4] == "Scale quick is a demonstration on stand-in images; it says nothing about the papers."


# make


def make(*words: str) -> subprocess.CompletedProcess:
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # not a make in a make
    return subprocess.run(["make", *words], cwd=REPO, env=alone, capture_output=True, text=True, timeout=60)


def test_make_help_lists_the_targets():
    *lines, last = make("help").stdout.splitlines()
    listed = [line.split()[0] for line in lines]
    assert last.startswith("SCALE=")
    assert {"reproduce", "figure", "check", "test", "install", "lock", "help"} == set(listed)


@pytest.mark.parametrize("words", [[], ["FIG=thesis-0"]])
def test_make_figure_without_a_figure_names_them_all(words):
    answer = make("-n", "figure", *words)
    assert answer.returncode != 0
    listed = answer.stderr.partition("one of: ")[2].partition(".  Stop")[0].split()
    assert listed == sorted(study.all_figures())


def test_make_hands_everything_on():
    last = make("-n", "figure", "FIG=thesis-2.2", "SCALE=cpu", "CORES=3", "VERBOSE=1").stdout.splitlines()[-1]
    assert last == "python -m bench reproduce --scale cpu --cores 3 --verbose thesis-2.2"


# Real runs


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A tree in which data and cells are there."""
    tree = copy_of_sources(tmp_path_factory.mktemp("reproduce") / "tree")
    assert run(tree, "lookahead_tables")[0] == 0
    return tree


@pytest.fixture
def own(tree, tmp_path) -> Path:
    return shutil.copytree(tree, tmp_path / "own")


@pytest.mark.slow
def test_a_log_gets_few_lines_with_counts_verdicts_and_paths(own):
    shutil.rmtree(own / "results/tiny/runs/lookahead/digits/wrn/width-8/l2/margin")
    shutil.copytree(own / "results/tiny/tables", own / "results/cpu/tables")
    claims = (own / "results/cpu/tables/lookahead-claims.csv").read_text()
    (own / "results/cpu/tables/claims.csv").write_text(claims)
    code, lines = run(own)
    assert code == 0, lines
    assert lines[0] == HEAD
    assert re.fullmatch(r"lookahead: cells 1 of 2, 0:00:\d\d gone", lines[1])
    n = len(study.figures("lookahead"))
    assert any(re.fullmatch(rf"done: cells 2 of 2, figures {n} of {n}, in 0:0\d:\d\d", line) for line in lines[2:6])
    told = lines.index("claims at scale tiny, by study and verdict")
    count = len({line.split(",")[2] for line in claims.splitlines()[1:]})
    assert lines[told + 1].split() == "supported not supported inconclusive not comparable not measured".split()
    assert lines[told + 2].split() == ["lookahead", "0", "0", "0", "0", str(count)]
    assert "claims at the committed scale cpu, by study and verdict" in lines
    assert lines[-3:] == [
        "report   results/tiny/report.html",
        "tables   results/tiny/tables/",
        "figures  figures/tiny/",
    ]
    assert len(lines) < 20
    assert "thesis-2.2" in (own / "results/tiny/report.html").read_text()

    made = (own / "results/tiny/report.html").stat().st_mtime_ns
    code, lines = run(own)
    assert code == 0
    assert lines[1] == "nothing to do: everything asked for is there and up to date"
    assert "claims at scale tiny, by study and verdict" in lines
    assert (own / "results/tiny/report.html").stat().st_mtime_ns == made  # nothing is newer


@pytest.mark.slow
def test_a_terminal_gets_one_line_and_the_figure(own):
    code, seen = run_on_terminal(own, "thesis-2.2")
    assert code == 0
    first, *lines = seen.split("\r\n")
    assert first == HEAD
    states = [state.strip() for state in lines[0].split("\r") if state.strip()]
    assert len(states) > 3
    assert re.fullmatch(r"planning: 0:00:0\d gone", states[0])
    assert re.fullmatch(r"drawing: figures [01] of 1, 0:00:\d\d gone", states[-2])
    assert re.fullmatch(r"done: figures 1 of 1, in 0:00:\d\d", states[-1])
    assert [line.strip() for line in lines[1:3]] == ["figures/tiny/thesis-2.2.png", "figures/tiny/thesis-2.2.pdf"]


@pytest.mark.slow
def test_verbose_shows_what_snakemake_says(own):
    code, lines = run(own, "thesis-2.2", "--verbose")
    assert code == 0
    assert "Building DAG of jobs..." in lines
    assert "localrule thesis-2.2:" in lines
    text = (own / "results/tiny/logs/snakemake.log").read_text()
    assert "localrule thesis-2.2:" in text
    assert "localrule lookahead_tables:" in text  # the run before


@pytest.mark.slow
def test_a_failed_cell_is_explained(own):
    (own / "tiny.yaml").write_text(yaml.safe_dump(with_recipe(lr=1e30, fallback_lr=None)))
    code, lines = run(own, "lookahead_tables")
    assert code == 1
    assert re.fullmatch(r"failed: cells 0 of 2, 2 failed, in 0:00:\d\d", lines[2])
    assert "Error in rule cell:" in lines
    assert "jobs that failed: 2, of them cells: 2" in lines
    cell = "digits/wrn/width-8/l2/margin/seed-0"
    assert any(line.startswith(f"  lookahead {cell}: the loss became non-finite") for line in lines)
    assert any(line.endswith(f"python -m bench run lookahead {cell} --scale tiny.yaml") for line in lines)
    assert any(line.endswith("results/tiny/logs/snakemake.log") for line in lines[3:])
    assert "the same command" in lines[-1]
    assert len(lines) < 80


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "words", "message"),
    [
        ({"scale": "x", "lookahed": {}}, [], "bench: tiny.yaml: unknown key 'lookahed'; did you mean 'lookahead'?"),
        (TINY | {"scale": "quick"}, [], "scale: found 'quick', the name of quick.yaml; give yours another"),
        (TINY, ["thesis-0"], "No rule to produce thesis-0"),
        (TINY, ["--cores", "some"], "must be integer or 'all'"),
    ],
)
def test_a_mistake_is_stated_and_nothing_else(own, config, words, message):
    (own / "tiny.yaml").write_text(yaml.safe_dump(config))
    code, lines = run(own, *words)
    assert code in (1, 2)
    assert message in lines[-1]
    assert len([line for line in lines if not line.startswith("scale ")]) <= 2
    assert not (own / "results/x").exists()


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--verbose"]])
def test_what_another_run_left_locked_says_what_to_type(own, words):
    locks = own / ".snakemake/locks"
    locks.mkdir(parents=True)
    (locks / "0.output.lock").write_text("figures/tiny/thesis-2.2.png\n")
    code, lines = run(own, "thesis-2.2", *words)
    assert code == 1
    assert lines[-1] == UNLOCK


@pytest.mark.slow
def test_ctrl_c_stops_everything_and_says_what_to_type(own):
    (own / "tiny.yaml").write_text(yaml.safe_dump(with_recipe(epochs=100_000)))
    code, seen = run_on_terminal(own, interrupt_at="lookahead: cells 0 of 2")
    assert code == 130
    assert seen.endswith("bench: interrupted; the same command continues where it stopped\r\n")
    assert not processes_in(own)
    (own / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    assert run(own, "lookahead_tables")[0] == 0  # no lock is left


@pytest.mark.slow
def test_snakemake_killed_from_outside_is_reported_as_that(own):
    (own / "tiny.yaml").write_text(yaml.safe_dump(with_recipe(epochs=100_000)))
    with subprocess.Popen(command(), cwd=own, stdout=subprocess.PIPE, text=True) as child:
        lines = iter(child.stdout.readline, "")
        assert next(line for line in lines if line.startswith("lookahead: cells 0 of 2"))
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        said = list(lines)
        assert child.wait(60) == 137
    assert "Snakemake was killed by signal 9, perhaps because memory ran out.\n" in said
    assert f"{UNLOCK}\n" in said
    assert not processes_in(own)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_a_killed_run_leaves_no_process(own, how):
    (own / "tiny.yaml").write_text(yaml.safe_dump(with_recipe(epochs=100_000)))
    with subprocess.Popen(command(), cwd=own, stdout=subprocess.PIPE, text=True) as child:
        lines = iter(child.stdout.readline, "")
        assert next(line for line in lines if line.startswith("lookahead: cells 0 of 2"))
        assert len(processes_in(own)) > 1
        child.send_signal(how)
        assert child.wait(60) == 130
    assert not processes_in(own)
