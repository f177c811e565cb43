"""The command line: what a user sees, mistakes included."""

import shutil

import pytest
import yaml
from conftest import TINY, bench, run_words, tiny_with

from bench.core import paths
from bench.core.locks import sole_run
from bench.studies import lookahead
from bench.studies.lookahead import Cell


@pytest.fixture(scope="module")
def finished(cell, settings, root, tmp_path_factory):
    """A folder with a configuration, one finished record and one failed run."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    record = paths.record_path("tiny", "lookahead", cell)
    result = bench(*run_words(cell, settings, root, folder / record))
    assert result.returncode == 0, result.stderr
    failed = folder / paths.log_path(
        paths.record_path("tiny", "lookahead", Cell("digits", "wrn", 8, "l2", "random", 1))
    )
    failed.parent.mkdir(parents=True)
    failed.write_text("cycle 1/3\nMemoryError: too small\n\n")
    return folder


RANDOM = "digits/wrn/width-8/l2/random/seed-0"


@pytest.mark.parametrize(
    ("cell", "change", "message"),
    [
        (RANDOM.replace("digits", "digitz"), [], "did you mean 'digits'?"),
        (RANDOM.replace("wrn", "wrn+layer=2"), [], "did you mean 'layers'?"),
        (RANDOM.replace("random", "entropyy"), [], "did you mean 'entropy'?"),
        (RANDOM.replace("random", "entropy+map=minmax"), [], "write 'entropy'"),
        (RANDOM.replace("l2", "l3"), [], "did you mean 'l2'?"),
        (RANDOM.replace("digits", "mnist").replace("l2", "l2+lr=0.10"), [], "write 'l2+lr=0.1'"),
        (RANDOM.replace("width-8", "width-0x8"), [], "allowed: {dataset}/{net}/width-{width}/"),
        (RANDOM + ".json", [], "allowed: {dataset}/{net}/width-{width}/"),
        (RANDOM, ["--threads", "0"], "at least 1"),
        (RANDOM, ["--settings", "{"], "--settings: not valid JSON"),
        (RANDOM, ["--root", "nowhere"], "python -m bench data digits --root nowhere"),
        (RANDOM, ["--scale", "papper"], "did you mean 'paper'?"),
        (RANDOM, ["--out", "x.txt"], "ends in .json"),
    ],
)
def test_mistakes_are_one_line_with_a_remedy(cell, change, message, tmp_path):
    result = bench("run", "lookahead", cell, "--out", tmp_path / "x.json", *change)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "x.json").exists()


@pytest.mark.slow
def test_a_wrong_width_is_said_by_the_net(root, tmp_path):
    result = bench("run", "lookahead", RANDOM.replace("8", "7"), "--out", tmp_path / "x.json", "--root", root)
    assert result.returncode == 2
    assert "width" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_a_cell_takes_its_settings_from_the_scale(finished, root, tmp_path, cell):
    """And its place: results/<scale>/runs/<study>/<cell>.json in the working folder."""
    words = ("--scale", finished / "tiny.yaml", "--root", root, "--device", "cpu")
    result = bench("run", "lookahead", str(cell), *words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    record = paths.record_path("tiny", "lookahead", cell)
    assert (tmp_path / record).read_bytes() == (finished / record).read_bytes()


@pytest.mark.slow
def test_status_counts_cells_and_names_failures(finished):
    lines = bench("status", "--scale", "tiny.yaml", cwd=finished).stdout.splitlines()
    assert lines[2].split() == ["lookahead", "1", "0", "1", "4"]
    assert lines[3] == "failed lookahead digits/wrn/width-8/l2/random/seed-1: MemoryError: too small"
    listed = bench("status", "--cells", "--scale", "tiny.yaml", cwd=finished).stdout.splitlines()
    assert "done lookahead digits/wrn/width-8/l2/entropy/seed-0" in listed
    assert len(listed) == 3 + 6


@pytest.mark.slow
def test_status_sees_a_running_cell(finished):
    record = finished / paths.record_path("tiny", "lookahead", Cell("digits", "wrn", 8, "l2", "margin", 0))
    with sole_run(paths.lock_path(record)):
        assert bench("status", "--scale", "tiny.yaml", cwd=finished).stdout.splitlines()[2].split()[2] == "1"


@pytest.mark.slow
def test_plan_prices_measured_and_unmeasured_cells(finished):
    text = bench("plan", "--scale", "tiny.yaml", "--device", "cpu", cwd=finished).stdout
    assert "measured" in text
    assert "6 jobs" in text
    other = tiny_with(recipes={"l2": {"epochs": 5}})
    (finished / "other.yaml").write_text(yaml.safe_dump(other))
    assert "queries and kernels are not counted" not in text
    text = bench("plan", "--scale", "other.yaml", "--device", "cpu", cwd=finished).stdout
    assert "probed: training and evaluation only, queries and kernels are not counted" in text


@pytest.mark.slow
def test_doctor_names_what_is_missing_and_what_to_type(finished):
    text = bench("doctor", "--scale", "tiny.yaml", cwd=finished).stdout
    assert "packages    all" in text
    assert "type: python -m bench data digits --root data" in text
    (finished / ".snakemake/locks").mkdir(parents=True)
    (finished / ".snakemake/locks/0.input.lock").touch()
    assert "snakemake --unlock" in bench("doctor", "--scale", "tiny.yaml", cwd=finished).stdout


@pytest.mark.slow
def test_collect_refuses_gaps_and_partial_fills_what_there_is(finished):
    strict = bench("collect", "--scale", "tiny.yaml", cwd=finished)
    assert strict.returncode == 2
    assert "5 of 6 records are missing" in strict.stderr
    partial = bench("collect", "--scale", "tiny.yaml", "--partial", cwd=finished)
    assert partial.returncode == 0, partial.stderr
    assert "1/6 cells; missing:" in partial.stderr
    assert "results/tiny/tables/claims.csv" in partial.stdout.splitlines()
    written = {path.stem for path in (finished / "results/tiny/tables").iterdir()}
    assert written == {*lookahead.TABLES, "claims"}


@pytest.mark.slow
def test_collect_leaves_the_tables_of_a_study_without_records(finished, tmp_path):
    both = tmp_path / "both.yaml"
    both.write_text((finished / "tiny.yaml").read_text() + "theory: {}\n")
    shutil.copytree(finished / "results", tmp_path / "results")
    old = tmp_path / "results/tiny/tables/theory-search.csv"
    old.parent.mkdir(parents=True, exist_ok=True)
    old.write_text("as it was")
    result = bench("collect", "--scale", "both.yaml", "--partial", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "theory: no record yet, its tables are left as they are" in result.stderr
    assert old.read_text() == "as it was"
    assert "results/tiny/tables/lookahead-curves.csv" in result.stdout.splitlines()


@pytest.mark.slow
def test_collect_with_nothing_says_what_to_type(finished, tmp_path):
    shutil.copy(finished / "tiny.yaml", tmp_path)
    result = bench("collect", "--scale", "tiny.yaml", "--partial", cwd=tmp_path)
    assert result.returncode == 2
    assert "has no record yet; python -m bench reproduce makes them" in result.stderr


def test_figure_without_tables_says_what_to_type(tmp_path):
    result = bench("figure", "thesis-2.2", "--tables", tmp_path)
    assert result.returncode == 2
    assert "lookahead-summary.csv is missing" in result.stderr


@pytest.mark.slow
def test_data_says_what_it_has(root):
    result = bench("data", "digits", "--root", root)
    assert "1,300 train and 497 test images, sha256" in result.stdout


@pytest.mark.slow
def test_every_command_has_help():
    commands = bench("--help").stdout
    for name in (
        "run",
        "data",
        "collect",
        "claims",
        "figure",
        "reproduce",
        "status",
        "plan",
        "archive",
        "restore",
        "docs",
    ):
        assert name in commands
        assert bench(name, "--help").returncode == 0
