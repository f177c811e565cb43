"""The measuring itself: disturbances noticed, equal nets for all contenders, a table that keeps processors apart."""

import os
import re
import subprocess
import sys
import time
import warnings
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from bench import nets
from bench.__main__ import main
from bench.core import config, machine, registry
from bench.core.errors import UserError
from bench.core.seeds import stream, torch_stream
from bench.kernels.empirical import gram
from bench.kernels.lookahead import block, distance, mlmoc, one_by_one, posterior, resolve
from bench.strategies import badge
from bench.tools.perf import (
    contenders,
    kernel_figure,
    kernels,
    lookahead,
    lookahead_figure,
    pntk,
    pntk_figure,
    quiet,
    report,
    turns,
)
from bench.tools.perf.exported import export
from bench.tools.perf.ratios import processors, ratios


@pytest.mark.slow
def test_a_busy_stranger_is_noticed():
    stranger = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        disturbed = quiet.measure(lambda: time.sleep(0.3), repeats=2, at_most=2)
    finally:
        stranger.kill()
        stranger.wait()
    assert disturbed.repeats == 0
    assert disturbed.foreign > 0.3 / os.cpu_count()
    assert 0.29 < disturbed.seconds < 5


@pytest.mark.slow
def test_own_work_and_children_are_no_strangers():
    own, busy = quiet._own(), quiet._busy()
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    start = time.process_time()
    while time.process_time() < start + 0.5:
        pass
    assert quiet._own() - own > 0.95
    assert quiet._busy() - busy > quiet._own() - own - 0.1  # ticks of all, ours included


def test_programs_of_other_environments_need_no_package():
    subprocess.run([sys.executable, "-S", "-c", "import bench.tools.perf.turns"], cwd=config.ROOT, check=True)


def test_a_program_lives_through_its_turns():
    code = "from bench.tools.perf import turns; counted = iter(range(9)); turns.serve(lambda: [next(counted)])"
    with closing(turns.Program([sys.executable, "-c", code])) as program:
        assert [program.turn() for _ in range(3)] == [[0], [1], [2]]
    assert program.process.returncode is not None


READY = "print('{}', flush=True); "


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("import time; time.sleep(60)", "stopped after 1 s before it was ready"),
        (READY + "import time; time.sleep(60)", "stopped after 5 s at work"),
        ("raise ValueError('no kernel')", "failed (1) before it was ready: ValueError: no kernel"),
        (READY + "input(); raise ValueError('what')", "failed (1) at work: ValueError: what"),
        (READY + "raise ValueError('deaf')", "failed (1) at work: ValueError: deaf"),
    ],
)
def test_a_program_that_fails_says_how(code, note):
    limit = int((re.findall("after (.) s", note) or [60])[0])  # 5 s: time enough to start
    with closing(turns.Program([sys.executable, "-c", code], limit)) as program:
        assert [program.turn() for _ in range(2)] == [{"note": note}] * 2  # the second of the dead


def test_the_fastest_undisturbed_turn_counts():
    def turn(seconds, foreign):
        return {"seconds": seconds, "foreign": foreign, "repeats": 2, "peak_gib": seconds}

    quiet_ones = {"repeats": 6, "peak_gib": 3, "seconds_by_round": "3 2 nan"}
    assert turns.best([turn(3, 0), turn(2, 0), turn(1, 0.5)]) == turn(2, 0) | quiet_ones
    disturbed = {"repeats": 4, "peak_gib": 3, "seconds_by_round": "nan nan"}
    assert turns.best([turn(3, 0.4), turn(1, 0.5)]) == turn(1, 0.5) | disturbed
    assert turns.best([turn(3, 0), {"note": "failed"}])["seconds_by_round"] == "3 nan"
    assert turns.best([{"note": "stopped"}, {"note": "failed"}]) == {"note": "stopped"}


STORED = ("running_mean", "running_var", "weight", "bias")
TORCH = {
    "conv": lambda w, name, a, *how: F.conv2d(a, w[f"{name}.weight"], w.get(f"{name}.bias"), *how),
    "linear": lambda w, name, a: F.linear(a, w[f"{name}.weight"], w[f"{name}.bias"]),
    "batchnorm": lambda w, name, a, eps: F.batch_norm(a, *(w[f"{name}.{key}"] for key in STORED), eps=eps),
    "leaky": F.leaky_relu,
}


@pytest.mark.parametrize("name", sorted(registry.components("nets")))
def test_peers_get_the_same_net(name, tmp_path):
    net = nets.build(name, (3, 8, 8), 4, 2, torch_stream(0)).eval()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
    export(net, torch.rand(3, 3, 8, 8), tmp_path)
    stored = {key: torch.from_numpy(value) for key, value in np.load(tmp_path / "net.npz").items() if key != "program"}
    w = {key.removeprefix("weight "): value for key, value in stored.items()}
    values = {"x": stored["x"], "w": w} | TORCH
    exec(str(np.load(tmp_path / "net.npz")["program"]), values)
    torch.testing.assert_close(values["output"], net(stored["x"]))


def test_a_net_that_peers_cannot_run_is_refused(tmp_path):
    with pytest.raises(UserError, match="Tanh"):
        export(torch.nn.Sequential(torch.nn.Tanh()), torch.rand(1), tmp_path)


@pytest.mark.parametrize("output", ["full", "pseudo"])
def test_contenders_compute_the_same_kernel(output):
    net = nets.build("wrn-16", (3, 8, 8), 3, 1, torch_stream(0)).eval().double()
    x = torch.rand(3, 3, 8, 8, dtype=torch.double)
    torch.testing.assert_close(contenders.by_jacobian(net, x, output), gram(net, x, output=output))


@pytest.mark.slow
def test_programs_of_contenders_are_timed_and_agree(monkeypatch):
    monkeypatch.setattr(contenders, "ROUNDS", 1)
    found = contenders.measured(contenders.Case("fcn", 8, 4), ["ours", "torch.func"])
    for result in found.values():
        assert result["seconds"] > 0, result
        assert 0.05 < result["peak_gib"] < 4
    assert found["ours"]["gflop"] > 0 < found["ours"]["gemm_gflops"]
    for what in ("trace", "norm"):
        assert found["ours"][what] == pytest.approx(found["torch.func"][what], rel=1e-4)


@pytest.mark.slow
def test_contenders_work_in_turns_and_none_starts_in_another_s_turn(monkeypatch):
    log = []

    class Fake:
        def __init__(self, _case, name, _stack):
            self.name, self.close = name, lambda: log.append(f"{name} ends")
            log.append(f"{name} starts")

        def turn(self):
            log.append(self.name)
            found = {"seconds": len(log), "repeats": 1, "foreign": 0.0, "peak_gib": 1.0, "norm": 1.0}
            return found | {"trace": 2.0 if self.name == "wrong" else 1.0}

    monkeypatch.setattr(contenders, "_program", Fake)
    few, many = contenders.Case("fcn", 8, contenders.FEW), contenders.Case("fcn", 8, contenders.FEW + 1)
    assert contenders.measured(few, ["a", "b"])["b"]["seconds_by_round"] == "4 6 8 10"
    assert log == ["a starts", "a", "b starts", "b", *"ab" * (contenders.ROUNDS - 1), "b ends", "a ends"]
    assert len(contenders.measured(many, ["a"])["a"]["seconds_by_round"].split()) == contenders.ROUNDS_OF_MANY
    with pytest.raises(UserError, match="differ in the trace"):
        contenders.measured(few, ["a", "wrong"])


@pytest.mark.skipif(
    not (config.ROOT / ".venv-peers/neural-tangents/ready").is_file(),
    reason="needs neural-tangents, which python -m bench perf kernels --peers installs",
)
@pytest.mark.parametrize("output", ["full", "pseudo"])
def test_neural_tangents_computes_the_same_kernel(output, monkeypatch):
    monkeypatch.setattr(contenders, "ROUNDS", 1)
    names = ["ours", "neural-tangents 1", "neural-tangents 3"]
    found = contenders.measured(contenders.Case("wrn-16", 1, 4, output), names)
    for what in ("trace", "norm"):
        assert [found[name][what] for name in names] == [pytest.approx(found["ours"][what], rel=1e-4)] * 3


def test_contenders_that_disagree_are_refused():
    def timed(trace, norm=7.0):
        return {"seconds": 1.0, "trace": trace, "norm": norm}

    stopped = {"note": "stopped after 240 s"}
    contenders.check_agreement({"ours": timed(5.0), "torch.func": timed(5.001), "neural-tangents 1": stopped})
    with pytest.raises(UserError, match="differ in the trace"):
        contenders.check_agreement({"ours": timed(5.0), "torch.func": timed(5.1)})
    with pytest.raises(UserError, match="differ in the trace"):
        contenders.check_agreement({"ours": timed(float("nan"))})
    with pytest.raises(UserError, match="differ in the norm"):
        contenders.check_agreement({"ours": timed(5.0), "torch.func": timed(5.0, 7.1)})


def test_what_does_not_fit_is_not_started():
    found = contenders.measured(contenders.Case("fcn", 1024, 256), ["torch.func"])["torch.func"]
    assert "seconds" not in found
    assert "GiB" in found["note"]


HERE = {"processor": f"{machine.processor()}, {os.cpu_count()} cores", "engine": contenders.engine()}
EARLIER = HERE | vars(contenders.Case("fcn", 8, 4)) | {"seconds": 123.0, "foreign": 0.0, "measured_at": "2026-01-01"}


@pytest.fixture
def out(monkeypatch, tmp_path):
    """A table of one case, at which contenders take 1 s from now on, and 123 s earlier."""
    for name, value in {"WITH_PEERS": [contenders.Case("fcn", 8, 4)], "ALONE": []}.items():
        monkeypatch.setattr(kernels, name, value)
    now = {"seconds": 1.0, "foreign": 0.0, "gflop": 3.0, "gemm_gflops": 6.0}
    monkeypatch.setattr(kernels, "measured", lambda case, names: {name: dict(now) for name in names})
    monkeypatch.setattr(quiet, "wait", lambda: 0.0)
    return tmp_path / "kernels.csv"


def written(out, *rows):
    pd.DataFrame(rows, columns=kernels.COLUMNS).to_csv(out, index=False)


def test_a_case_is_kept_if_it_is_whole(out, capsys):
    written(out, EARLIER | {"contender": "torch.func"})
    assert main(["perf", "kernels", "--out", str(out.parent)]) == 0
    assert capsys.readouterr().out.split() == [str(out.with_suffix(kind)) for kind in (".csv", ".png", ".pdf")]
    assert pd.read_csv(out)[["contender", "seconds"]].to_numpy().tolist() == [["ours", 1.0], ["torch.func", 1.0]]
    written(out, EARLIER | {"contender": "ours"}, EARLIER | {"contender": "torch.func"})
    assert list(kernels.run(out).seconds) == [123.0, 123.0]
    written(out, EARLIER | {"contender": "ours"}, EARLIER | {"contender": "torch.func", "foreign": 0.5})  # disturbed
    assert list(kernels.run(out).seconds) == [1.0, 1.0]


def test_a_run_replaces_the_rows_of_its_own_processor(out, capsys):
    elsewhere = {"processor": "Abacus, 1 cores", "contender": "ours", "gflop": 246.0, "gemm_gflops": 4.0}
    old = {"engine": "an older one"}
    written(out, EARLIER | old | {"contender": "torch.func"}, EARLIER | old | elsewhere)
    before = out.read_bytes()
    with pytest.raises(UserError, match="without --only"):
        kernels.run(out, only="fcn")
    assert out.read_bytes() == before
    found = kernels.run(out)
    assert "1 rows of this processor are of another version of the engine; not kept" in capsys.readouterr().err
    there = found.processor == "Abacus, 1 cores"
    assert found[there][["seconds", "gemm_fraction", "engine"]].to_numpy().tolist() == [[123.0, 0.5, "an older one"]]
    assert found[~there][["seconds", "gemm_fraction"]].to_numpy().tolist() == [[1.0, 0.5]] * 2  # of its own best rate
    assert set(found[~there].engine) == {HERE["engine"]}
    kernels.run(out, only="fcn")
    assert len(pd.read_csv(out)) == 3


def table():
    """Ours takes 1 s, torch.func 3 s or 6 s, neural-tangents 5 s or 2 s, but 0.5 s at the fcn's pNTK on the Abacus."""
    rows = []
    for processor, day, slow in (("Abacus, 1 cores", 1, 3), ("Babbage Processor, 1 cores", 2, 6)):
        about = {"processor": processor, "engine": processor[0], "measured_at": f"2026-01-0{day}", "note": ""}
        about |= {"gemm_gflops": 9.0, "gemm_fraction": 0.5, "foreign": 0.0, "parameters": 7}
        for case in kernels.WITH_PEERS + kernels.ALONE:
            fast = 0.5 if (case.net, case.output, slow) == ("fcn", "pseudo", 3) else 2
            peers = {"torch.func": slow, "neural-tangents 1": 5, "neural-tangents 3": fast}
            for name, seconds in ({"ours": 1} | (peers if case in kernels.WITH_PEERS else {})).items():
                times = {"seconds": float(seconds), "peak_gib": 2 * seconds, "seconds_by_round": f"1 nan {1 + slow}"}
                rows.append(about | vars(case) | {"contender": name} | times)
    return pd.DataFrame(rows, columns=kernels.COLUMNS)


def test_ratios_are_to_the_best_of_a_peer_on_the_same_processor():
    made = table()
    made.loc[(made.net == "wrn-28") & (made.contender == "neural-tangents 3"), ["seconds", "note"]] = [None, "failed"]
    found = ratios(made)
    assert list(processors(made)) == ["Babbage Processor, 1 cores", "Abacus, 1 cores"]  # the newest first
    best = found[found.peer == "neural-tangents"].groupby("net").time.agg(["min", "max"]).T.to_dict("list")
    assert best == {"wrn-28": [5, 5], "fcn": [0.5, 2]} | {net: [2, 2] for net in ("convnet", "resnet18", "wrn-16")}
    slow = found[found.peer == "torch.func"]
    assert set(zip(slow.processor.str[0], slow.time, strict=True)) == {("A", 3.0), ("B", 6.0)}
    assert (found.memory == found.time).all()


def test_documents_say_what_is_slower_where_and_by_which_engine(tmp_path):
    made = table()
    made.loc[(made.net == "wrn-28") & (made.contender == "torch.func"), ["seconds", "note"]] = [None, "not run"]
    made.loc[(made.net == "convnet") & (made.processor.str[0] == "A") & (made.contender == "ours"), "seconds"] = 0.25
    made.to_csv(tmp_path / "kernels.csv", index=False)
    text = report.kernel_speed(tmp_path)
    assert "| torch.func | eNTK | 32 | 6.0 to 6.0 (3 nets) | 6 | 3.0 to 12.0 (3 nets) | 3 |" in text
    behind = "fcn, pNTK, N = {} on Abacus (neural-tangents 3 takes 0.50 times as long)"
    assert f"slower than a peer here: {behind.format(32)}; {behind.format(256)}.\n" in text
    assert "smaller on Abacus than on Babbage at resnet18 eNTK (3.00 against 6.00), " in text
    assert "It is larger at convnet eNTK (12.00 against 6.00), convnet pNTK (12.00 against 6.00)." in text
    assert "different versions of the engine" in text
    assert "- Abacus, 1 cores: measured from 2026-01-01 to 2026-01-01, engine A." in text
    assert "took 7.00 times as long" in text
    rows = report.kernel_speed_by_net(tmp_path)
    assert rows.count("| resnet18 1 | eNTK | 256 | 10 | 1 | 2.0 | 50% | 6.00 | 6.00 | 2.00 | 2.00 |") == 1
    assert rows.count("| wrn-28 2 | eNTK | 256 | 10 | 1 | 2.0 | 50% |  |  | 2.00 | 2.00 |") == 2
    assert rows.count("| convnet 2 | eNTK | 1,000 |") == 2
    assert "torch.func at wrn-28, eNTK, N = 32 (not run)" in rows


def test_the_document_on_speed_is_current():
    text = (config.ROOT / "docs/speed.md").read_text()
    blocks = dict(re.findall(r"<!-- begin ([a-z-]+) -->\n(.*?)\n<!-- end \1 -->", text, re.DOTALL))
    assert blocks == {name: block() for name, block in report.BLOCKS.items()}


@pytest.mark.parametrize("kept", ["ours", "torch.func", "nobody"])
def test_a_run_hardly_begun_has_its_figure(kept):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel_figure.draw(table()[lambda frame: frame.contender == kept]).draw_without_rendering()


def test_the_figure_has_a_panel_per_processor_and_every_ratio():
    made = table()
    made.loc[(made.net == "fcn") & (made.contender == "torch.func"), "seconds"] = 700.0
    drawn = kernel_figure.draw(made)
    assert [axes.get_title() for axes in drawn.axes] == ["Babbage", "Abacus"]
    times = [sorted(line.get_xdata()[0] for line in axes.lines[1:]) for axes in drawn.axes]
    most = [kernel_figure.MOST] * 4
    assert times == [[2.0] * 20 + [6.0] * 16 + most, [0.5] * 2 + [2.0] * 18 + [3.0] * 16 + most]
    assert [text.get_text().strip() for text in drawn.axes[0].texts].count("700") == 4
    assert {text.get_text() for text in drawn.legends[0].get_texts()} == {"torch.func", "neural-tangents"}


TINY = lookahead.Case(labelled=6, candidates=12, outputs=3)


@pytest.mark.slow
@pytest.mark.parametrize("contender", [*lookahead.CONTENDERS, *lookahead.BADGE])
def test_every_look_ahead_contender_runs(contender, monkeypatch):
    monkeypatch.setitem(lookahead.SAMPLE, "block formula", 4)
    monkeypatch.setattr(lookahead, "EPOCHS", 1)
    found = lookahead.measured(TINY, contender)
    assert found["seconds"] > 0
    assert found["sample"] == {"block formula": 4, "retraining": 3}.get(contender, 12)
    assert ("matrices" in found) == (contender in lookahead.READINGS)


def test_look_ahead_contenders_score_the_same():
    """The inputs they are timed on are no special case: all three forms agree there."""
    k_ll, k_ul, k_uu, residual, prior = lookahead.inputs(TINY)
    labels = torch.eye(3).double()[prior.argmax(1)]
    loops = [
        one_by_one(form(k_ll, k_ul, k_uu, residual, prior), labels, lambda outputs: distance(outputs, prior))
        for form in (block, resolve)
    ]
    scores = mlmoc(posterior(k_ll, k_ul, k_uu, residual, prior), labels, prior)
    assert scores.min() > 0
    for each in loops:
        torch.testing.assert_close(each, scores, rtol=1e-10, atol=1e-10)


def test_badge_contenders_choose_the_same():
    h, q = torch.randn(2, 30, 7, generator=torch_stream(0), dtype=torch.float64)
    chosen = [work(h, q[:, :4], 12, stream(0)) for work in (badge.kmeans_plus_plus, lookahead.materialised)]
    assert chosen[0].tolist() == chosen[1].tolist()


@pytest.mark.slow
def test_look_ahead_run_writes_its_table_and_extrapolates(tmp_path, monkeypatch):
    found = lookahead.run(tmp_path / "lookahead.csv", TINY, only="block formula", patience=0.0)
    assert list(found.contender) == ["block formula"]
    read = pd.read_csv(tmp_path / "lookahead.csv")
    assert list(read.columns) == lookahead.COLUMNS
    np.testing.assert_allclose(read.seconds, found.seconds, rtol=1e-9)  # ten digits are written
    monkeypatch.setattr(quiet, "measure", lambda *_, **__: quiet.Timing(2.0, 1, 0.0))
    monkeypatch.setitem(lookahead.SAMPLE, "re-solve", 3)
    assert lookahead.measured(TINY, "re-solve")["seconds"] == 2.0 * 12 / 3


@pytest.mark.parametrize("kept", [0, 1, 99])
def test_look_ahead_figure_marks_what_is_extrapolated(kept):
    made = pd.read_csv(config.ROOT / "results/perf/lookahead.csv").query("group == 'contenders'").iloc[:kept]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = lookahead_figure.draw(made)
        drawn.draw_without_rendering()
    texts = [text.get_text() for text in drawn.axes[0].texts]
    assert sum("of 4,000 candidates" in text for text in texts) == (len(lookahead.SAMPLE) if kept == 99 else 0)


@pytest.mark.slow
def test_pntk_run_times_every_contender_and_phase(tmp_path, monkeypatch):
    cases = [pntk.Solver(300, "float32"), pntk.Study(4, 3, 8), pntk.Study(4, 3, 8, "pseudo")]
    monkeypatch.setattr(pntk, "cases", lambda: cases)
    monkeypatch.setattr(pntk, "ROUNDS", 1)
    pntk.run(tmp_path / "pntk.csv", patience=0.0)
    read = pd.read_csv(tmp_path / "pntk.csv")
    assert list(read.columns) == pntk.COLUMNS
    assert sorted(read.what) == sorted([*pntk.SOLVERS, *pntk.PHASES, *pntk.PHASES])
    assert (read.seconds > 0).all()
    assert set(read.n[read.output == "full"]) == {12}
    with pytest.raises(UserError, match="failed"):
        pntk.measured(pntk.Solver(300, "float16"))


def test_what_the_solvers_factorise_is_positive_and_symmetric():
    a = torch.empty(50, 50, dtype=torch.float64)
    pntk.fill(a)
    assert torch.equal(a, a.T)
    found = [pntk.factorise(name, a.clone()).log().sum() for name in pntk.SOLVERS]
    torch.testing.assert_close(found, [a.logdet() / 2] * 3)


@pytest.mark.parametrize("kept", ["solver", "base", "."])
def test_pntk_figure_of_part_of_a_table(kept):
    made = pd.read_csv(config.ROOT / "results/perf/pntk.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = pntk_figure.draw(made[made.group.str.contains(kept)])
        drawn.draw_without_rendering()
    assert len(drawn.axes) == (2 if kept == "." else 1)
