"""The measuring itself: disturbances noticed, equal nets for all contenders, verdicts as they should be."""

import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from bench import nets
from bench.__main__ import main
from bench.core import config, registry
from bench.core.errors import UserError
from bench.core.seeds import stream, torch_stream
from bench.kernels.backward import backward
from bench.kernels.empirical import gram
from bench.kernels.lookahead import block, distance, mlmoc, one_by_one, posterior, resolve
from bench.kernels.tangents import Tangents
from bench.strategies import badge
from bench.tools.perf import bars, figure, kernels, lookahead, lookahead_figure, quiet, report, turns
from bench.tools.perf.program import export


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


def test_own_work_and_children_are_no_strangers():
    def work():
        children = [subprocess.Popen([sys.executable, "-c", "sum(range(2 * 10**7))"]) for _ in range(os.cpu_count())]
        sum(range(10**7))
        assert not any(child.wait() for child in children)

    assert quiet.measure(work, repeats=1, at_most=5).foreign < 0.5  # as strangers, they would be nearly 1


def applied(kind, details, w, a, b=None):
    """One operation of a program."""
    match kind:
        case "conv":
            return F.conv2d(a, w["weight"], w.get("bias"), int(details[0]), int(details[1]))
        case "linear":
            return F.linear(a, w["weight"], w["bias"])
        case "batchnorm":
            fixed = w["running_mean"], w["running_var"], w["weight"], w["bias"]
            return F.batch_norm(a, *fixed, eps=float(details[0]))
        case "leaky":
            return F.leaky_relu(a, float(details[0]))
        case "add":
            return a + b
        case "mean":
            return a.mean((2, 3))
        case "flatten":
            return a.flatten(1)
    return a  # identity, output


def interpreted(folder, x):
    """A net run from its exported program by plain torch functions."""
    stored = np.load(folder / "net.npz")
    weights = {
        key.removeprefix("weight "): torch.from_numpy(stored[key]) for key in stored.files if key[:7] == "weight "
    }
    values = {}
    for line in stored["program"]:
        result, how, name, *operands = line.split()
        kind, *details = how.split(":")
        inputs = [values[operand] for operand in operands if operand in values]
        w = {key.removeprefix(f"{name}."): value for key, value in weights.items() if key.startswith(f"{name}.")}
        values[result] = x if kind == "input" else applied(kind, details, w, *inputs)
    return values["output"]


@pytest.mark.parametrize("name", sorted(registry.components("nets")))
def test_peers_get_the_same_net(name, tmp_path):
    net = nets.build(name, (3, 8, 8), 4, 2, torch_stream(0)).eval()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
    x = torch.rand(3, 3, 8, 8)
    export(net, x, tmp_path)
    torch.testing.assert_close(interpreted(tmp_path, x), net(x))


@pytest.mark.parametrize("output", ["full", "pseudo"])
def test_contenders_compute_the_same_kernel(output):
    net = nets.build("wrn-16", (3, 8, 8), 3, 1, torch_stream(0)).eval().double()
    x = torch.rand(3, 3, 8, 8, dtype=torch.double)
    torch.testing.assert_close(kernels.by_jacobian(net, x, output), gram(net, x, output=output))


def test_contenders_are_measured_in_turns(monkeypatch):
    monkeypatch.setattr(kernels, "ROUNDS", 2)
    found = kernels.measured(kernels.Case("fcn", 8, 4), ["ours", "torch.func"])
    for result in found.values():
        assert result["seconds"] > 0, result
        assert result["repeats"] > 2 or result["foreign"] > quiet.FOREIGN
        assert 0.05 < result["peak_gib"] < 4
    assert found["ours"]["gflop"] / found["ours"]["seconds"] < found["ours"]["gemm_gflops"]
    assert 0 < found["ours"]["overhead"] < 1
    for what in ("trace", "norm"):
        assert found["ours"][what] == pytest.approx(found["torch.func"][what], rel=1e-4)


def test_a_contender_far_behind_has_one_turn(monkeypatch):
    seconds = {"ours": [1.0, 1.5, 1.5, 1.5], "near": [kernels.FAR - 0.1] * 4, "far": [kernels.FAR + 0.1] * 4}
    code = """
from bench.tools.perf import turns
seconds = iter({})
turns.serve(time=lambda: dict(seconds=next(seconds), repeats=1, foreign=0, peak_gib=1, trace=1, norm=1), profile=dict)
"""

    def program(_case, name, _stack):
        return turns.Program([sys.executable, "-c", code.format(seconds[name])])

    monkeypatch.setattr(kernels, "_program", program)
    found = kernels.measured(kernels.Case("fcn", 8, 4), list(seconds))
    turns_had = {name: result["repeats"] for name, result in found.items()}
    assert turns_had == {"ours": kernels.ROUNDS, "near": kernels.ROUNDS, "far": 1}
    assert found["ours"]["seconds_by_round"] == "1 1.5 1.5 1.5"


def test_a_profile_has_shares_and_rates():
    a, b = torch.randn(2, 300, 300)
    batch, image, weight = torch.randn(4, 50, 60), torch.randn(2, 8, 16, 16), torch.randn(8, 8, 3, 3)

    def work():
        return a @ b, torch.bmm(batch, batch.mT), torch.nn.functional.conv2d(image, weight)

    work()
    start = time.perf_counter()
    found = kernels.profile(work)
    took = time.perf_counter() - start
    wanted = {"products": 2 * 300**3, "batched_products": 2 * 4 * 50 * 60 * 50, "convolutions": 2 * 2 * 8 * 14**2 * 72}
    totals = {part: flops / found[f"{part}_gflops"] / 1e9 / found[part] for part, flops in wanted.items()}
    assert min(totals.values()) == pytest.approx(max(totals.values()))  # the time of all, as each part implies it
    assert 0 < totals["products"] < took
    assert 0 < found["other_operations"] < 1 - sum(found[part] for part in kernels.PARTS)


def test_backward_convolutions_are_found_as_such():
    net = nets.build("convnet+depth=4", (3, 16, 16), 10, 2, torch.Generator().manual_seed(0)).eval()
    x = torch.ones(8, 3, 16, 16)
    seen, f = Tangents(net, x, None, "full", None)._forward(x)
    takers = [(lambda _: None, z) for _, z in seen]

    def work():
        backward(f, torch.ones(10, *f.shape), takers)

    work()
    assert kernels.profile(work)["convolutions"] > 0.4


def test_contenders_that_disagree_are_refused():
    stopped = {"note": "stopped after 240 s", "at_least": 240}

    def timed(trace, norm=7.0):
        return {"seconds": 1.0, "trace": trace, "norm": norm}

    kernels.check_agreement({"ours": timed(5.0), "torch.func": timed(5.001), "neural-tangents 1": stopped})
    with pytest.raises(UserError, match="differ in the trace"):
        kernels.check_agreement({"ours": timed(5.0), "torch.func": timed(5.1)})
    with pytest.raises(UserError, match="differ in the trace"):
        kernels.check_agreement({"ours": timed(float("nan"))})
    with pytest.raises(UserError, match="differ in the norm"):
        kernels.check_agreement({"ours": timed(5.0), "torch.func": timed(5.0, 7.1)})


def test_a_case_that_lacks_a_contender_is_measured_as_a_whole(monkeypatch, tmp_path, capsys):
    case = kernels.Case("fcn", 8, 4)
    for name, value in {"ROUNDS": 1, "PEERS": [case], "THESIS": [], "GROWTH": []}.items():
        monkeypatch.setattr(kernels, name, value)
    monkeypatch.setattr(quiet, "FOREIGN", 2.0)  # whatever runs beside this test
    out = tmp_path / "kernels.csv"
    earlier = vars(case) | {"contender": "torch.func", "note": "", "seconds": 123.0, "foreign": 0.0}
    earlier |= kernels._circumstances()
    pd.DataFrame([earlier], columns=kernels.COLUMNS).to_csv(out, index=False)
    assert main(["perf", "kernels", "--out", str(tmp_path)]) == 0
    measured, reached = capsys.readouterr().out.split("\n\n")
    assert measured.count("gemm_fraction") == measured.count("torch.func") == 1
    assert reached.split()[:2] == ["net", "output"]
    assert {path.name for path in tmp_path.iterdir()} == {
        *("kernels.csv", "kernels-bars.csv", "kernels.png", "kernels.pdf")
    }
    first = pd.read_csv(out)
    assert list(first.contender) == ["ours", "torch.func"]
    assert (first.seconds < 123).all()
    assert first.gemm_fraction.notna().tolist() == [True, False]
    again = kernels.run(False, out)
    assert list(again.seconds) == pytest.approx(list(first.seconds), rel=1e-8)  # kept, not measured
    for key in ("processor", "engine"):
        again.assign(**{"seconds": 123.0, key: "another"}).to_csv(out, index=False)
        assert kernels._earlier(out) == []
        assert "2 rows are of another machine or another version" in capsys.readouterr().err
    before = out.read_bytes()
    with pytest.raises(UserError, match="without --only"):
        kernels.run(False, out, only="fcn")
    assert out.read_bytes() == before


@pytest.mark.skipif(
    not (config.ROOT / ".venv-peers/neural-tangents/ready").is_file(), reason="python -m bench perf kernels --peers"
)
@pytest.mark.parametrize("output", ["full", "pseudo"])
def test_neural_tangents_computes_the_same_kernel(output, monkeypatch):
    monkeypatch.setattr(kernels, "ROUNDS", 1)
    names = ["ours", "neural-tangents 1", "neural-tangents 3"]
    found = kernels.measured(kernels.Case("wrn-16", 1, 4, output), names)
    for what in ("trace", "norm"):
        assert [found[name][what] for name in names] == [pytest.approx(found["ours"][what], rel=1e-4)] * 3


def test_what_does_not_fit_is_not_started():
    found = kernels.measured(kernels.Case("fcn", 1024, 256), ["torch.func"])["torch.func"]
    assert "seconds" not in found
    assert "GiB" in found["note"]


def table():
    """Measurements in which ours takes 1 s, peers 3 s but for one case, and products of as many flops 0.9 s."""
    rows = []
    for case in kernels.PEERS + kernels.GROWTH + kernels.THESIS:
        row = {
            **vars(case),
            "seconds": 1.0,
            "peak_gib": 1.0,
            "gflop": 85.0,
            "gemm_gflops": 100.0,
            "other_operations": 0.1,
            "overhead": 0.0,
            "gemm_fraction": 0.85,
            "contender": "ours",
            "at_least": None,
            "seconds_by_round": "1 1",
        }
        rows.append(row)
        if case.group == "peers":
            slow = {"seconds": 3.0, "peak_gib": 3.0, "seconds_by_round": "3 3"}
            rows += [row | slow | {"contender": name} for name in ("neural-tangents 1", "torch.func")]
            slower = {"seconds": 5.0, "peak_gib": 0.5, "seconds_by_round": "5 nan"}
            rows.append(row | slower | {"contender": "neural-tangents 3"})
        if case.group == "thesis size":
            rows.append(row | {"seconds": 0.9, "seconds_by_round": "0.9 0.9", "contender": bars.PRODUCTS})
    return pd.DataFrame(rows)


def test_bars_compare_with_the_best_of_a_peer():
    reached = bars.bars(table())
    with_nt = reached[reached.against == "neural-tangents"]
    assert (with_nt.had == 3.0).all()
    assert (with_nt[with_nt.wanted <= 3].met == "yes").all()
    assert (with_nt[with_nt.wanted > 3].met == "no").all()
    assert (reached[reached.against == bars.PRODUCTS].met == "yes").all()
    heavy = table()
    heavy.loc[heavy.contender == "ours", "peak_gib"] = 9.0
    too_heavy = bars.bars(heavy)[lambda frame: frame.against == bars.PRODUCTS]
    assert set(zip(too_heavy.met, too_heavy.limit, strict=True)) == {("no", "memory")}
    failed = table()
    failed.loc[failed.contender != "ours", "seconds"] = None
    assert set(bars.bars(failed).met) == {"peer failed"}
    ours_only = table()[lambda frame: frame.contender == "ours"]
    assert set(bars.bars(ours_only).met) == {"not measured"}


def test_bars_not_met_say_what_is_in_the_way():
    def limits(others, overhead):
        reached = bars.bars(table().assign(other_operations=others, overhead=overhead))
        assert set(reached[reached.met == "yes"].limit) == {""}
        return reached[reached.met == "no"].set_index("wanted").limit.to_dict()

    gemm = "the machine's GEMM rate"  # 3 times as fast, at 85% of it: at most 3.53 times
    assert limits(0.1, 0.0) == {3.5: "torch's products", 4.0: gemm}
    assert limits(0.4, 0.1) == {3.5: "torch's other operations", 4.0: gemm}
    assert limits(0.3, 0.2) == {3.5: "overhead", 4.0: gemm}
    slow = table()
    slow.loc[slow.contender == bars.PRODUCTS, ["seconds", "seconds_by_round"]] = [0.7, "0.7 0.7"]
    missed = bars.bars(slow)[lambda frame: frame.against == bars.PRODUCTS]
    assert set(zip(missed.had, missed.limit, strict=True)) == {(0.7, "torch's products")}


def test_bars_met_in_some_rounds_only_are_undecided():
    measured = table()
    resnet = measured.net == "resnet18"
    measured.loc[resnet & (measured.contender == "ours"), "seconds_by_round"] = "1 1.25"  # 3 times as fast, then 2.4
    thesis = resnet & (measured.group == "thesis size") & (measured.contender == "ours")
    measured.loc[thesis, ["seconds_by_round", "seconds"]] = ["1.15 1.2", 1.15]
    reached = bars.bars(measured)
    near = reached[(reached.wanted == 2.5) & (reached.net == "resnet18")].iloc[0]
    assert (near.low, near.had, near.high) == (pytest.approx(2.4), 3.0, 3.0)
    assert (near.met, near.rounds_met, near.rounds, near.limit) == ("undecided", 1, 2, "the machine's noise")
    easy = reached[(reached.wanted == 1.6) & (reached.net == "resnet18")].iloc[0]
    assert (easy.met, easy.rounds_met, easy.limit) == ("yes", 2, "")
    missed = reached[(reached.against == bars.PRODUCTS) & (reached.net == "resnet18")].iloc[0]
    assert (missed.met, missed.low, missed.high) == ("no", pytest.approx(0.9 / 1.2), pytest.approx(0.9 / 1.15))
    others = reached[reached.net != "resnet18"]
    assert list(others.low) == list(others.high) == list(others.had)


def test_a_round_in_which_the_best_of_a_peer_was_disturbed_does_not_count():
    measured = table()
    measured.loc[measured.contender == "neural-tangents 1", "seconds_by_round"] = "3 nan"
    measured.loc[measured.contender == "neural-tangents 3", "seconds_by_round"] = "5 5"
    reached = bars.bars(measured)[lambda frame: frame.against == "neural-tangents"]
    assert set(zip(reached.low, reached.had, reached.high, reached.rounds, strict=True)) == {(3.0, 3.0, 3.0, 1)}


def test_fastest_turns_of_rounds_that_are_not_whole_count_beside_them():
    measured = table()
    measured.loc[measured.contender == "ours", "seconds_by_round"] = "1.25 1"
    measured.loc[measured.contender == "torch.func", "seconds_by_round"] = "3 nan"  # 2.4 in the only whole round
    reached = bars.bars(measured.assign(contender=measured.contender.replace("torch.func", "neural-tangents 1")))
    near = reached[(reached.wanted == 2.5) & (reached.net == "resnet18")].iloc[0]
    assert (near.met, near.limit, near.low, near.had) == ("undecided", "the machine's noise", pytest.approx(2.4), 3.0)


def test_rounds_of_which_none_is_whole_leave_the_fastest_turns():
    measured = table().assign(seconds_by_round="nan nan")
    reached = bars.bars(measured)[lambda frame: frame.against == "neural-tangents"]
    assert list(reached.low) == list(reached.high) == list(reached.had)
    assert set(reached[reached.wanted > 3].met) == {"no"}


def test_profiles_are_taken_again_and_times_stay(tmp_path):
    case, out = kernels.Case("fcn", 8, 4), tmp_path / "kernels.csv"
    earlier = vars(case) | {"contender": "ours", "note": "", "seconds": 123.0, "foreign": 0.0, "gflop": 1.0}
    earlier |= {"gemm_gflops": 1.0} | kernels._circumstances()
    rows = [earlier, earlier | {"contender": "torch.func"}]
    pd.DataFrame(rows, columns=kernels.COLUMNS).to_csv(out, index=False)
    table = kernels.profile_again(out)
    assert list(table.seconds) == [123.0, 123.0]
    assert table.overhead.notna().tolist() == [True, False]
    assert pd.read_csv(out).other_operations.notna().tolist() == [True, False]


def test_profiles_need_an_earlier_run_of_this_machine(tmp_path):
    out = tmp_path / "kernels.csv"
    with pytest.raises(UserError, match="nothing of this engine on this machine"):
        kernels.profile_again(out)
    table().assign(processor="of another machine", note="").to_csv(out, index=False)
    before = out.read_bytes()
    with pytest.raises(UserError, match="nothing of this engine on this machine"):
        kernels.profile_again(out)
    assert out.read_bytes() == before


def test_contenders_that_were_faster_are_named():
    measured = table()
    assert bars.behind(measured).empty
    one = (measured.net == "fcn") & (measured.points == 32) & (measured.output == "pseudo")
    measured.loc[one & (measured.contender == "neural-tangents 3"), "seconds"] = 0.7
    (faster,) = bars.behind(measured).itertuples()
    assert (faster.net, faster.contender, faster.ratio) == ("fcn", "neural-tangents 3", 0.7)


def test_matrix_products_are_as_many_flops():
    with FlopCounterMode(display=False) as counter:
        kernels.multiply(1e9, 256)
    assert counter.get_total_flops() == pytest.approx(1e9, rel=2 * 256**3 / 1e9)


def test_the_machine_multiplies_as_much_as_the_engine_in_turns(monkeypatch):
    monkeypatch.setattr(kernels, "ROUNDS", 1)
    found = kernels.measured(kernels.Case("wrn-16", 1, 8), ["ours", bars.PRODUCTS])
    ours, products = found["ours"], found[bars.PRODUCTS]
    assert products["gflop"] == ours["gflop"] > 0
    assert products["seconds"] > 0  # of its round: nan if others used the machine meanwhile


def test_rounds_show_the_spread():
    measured = table()
    one = (measured.net == "wrn-16") & (measured.group == "growth in width") & (measured.width == 4)
    measured.loc[one, "seconds_by_round"] = "1 nan 1.5 1.2"
    assert (bars.spreads(measured)[one[measured.contender == "ours"]] == 1.5).all()
    assert (bars.spreads(measured)[~one[measured.contender == "ours"]] == 1.0).all()


@pytest.mark.parametrize("kept", ["ours", "torch.func", "nobody"])
def test_a_run_hardly_begun_has_its_table_and_figure(kept):
    some = table()[lambda frame: frame.contender == kept].reindex(columns=kernels.COLUMNS)
    assert set(bars.bars(some).met) == {"not measured"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert figure.draw(some).axes


def test_the_figure_shows_every_peer():
    drawn = figure.draw(table())
    drawn_in = {line.get_color() for line in drawn.axes[0].lines}
    assert drawn_in >= {colour for colour, *_ in figure.SHOWN.values()}
    legends = [axes.get_legend() for axes in drawn.axes if axes.get_legend()] + drawn.subfigs[0].legends
    labels = [text.get_text() for legend in legends for text in legend.get_texts()]
    peers = {"torch.func", "neural-tangents, Jacobian contraction", "neural-tangents, structured derivatives"}
    assert peers | {"eNTK", "pNTK"} <= set(labels)


TINY = lookahead.Case(labelled=6, candidates=12, outputs=3)


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


def test_look_ahead_run_writes_its_table(tmp_path):
    found = lookahead.run(tmp_path / "lookahead.csv", TINY, only="block formula", patience=0.0)
    assert list(found.contender) == ["block formula"]
    assert found.seconds.notna().all(), found.note.tolist()
    written = pd.read_csv(tmp_path / "lookahead.csv")
    assert list(written.columns) == lookahead.COLUMNS
    np.testing.assert_allclose(written.seconds, found.seconds, rtol=1e-9)  # ten digits are written


def look_ahead_table():
    """Measurements in which the posterior form takes 1 s, the block formula 10 s, everything else 20 s."""
    rows = []
    for contender in lookahead.CONTENDERS:
        seconds = 1.0 if contender in lookahead.READINGS else 10.0 if contender == "block formula" else 20.0
        sample = lookahead.SAMPLE.get(contender, 4000)
        memory = {"matrices": 1.3 if contender == "posterior, from f_lin" else 2.5}
        memory = memory if contender in lookahead.READINGS else {}
        rows.append({**vars(lookahead.BASE), "contender": contender, "seconds": seconds, "sample": sample} | memory)
    return pd.DataFrame(rows, columns=lookahead.COLUMNS)


def test_look_ahead_bars():
    reached = lookahead.bars(look_ahead_table())
    assert reached[reached.against == "block formula"].met.tolist() == ["yes", "yes"]
    assert reached[reached.against == "re-solve"].met.tolist() == ["no", "no"]
    assert reached[reached.quantity == "U x U matrices"].met.tolist() == ["yes", "no"]
    assert reached[reached.against == "retraining"].had.tolist() == [20 / 21]
    nothing = lookahead.bars(look_ahead_table().iloc[:0])
    assert set(nothing.met) == {"not measured"}


@pytest.mark.parametrize("kept", [0, 1, 99])
def test_look_ahead_figure_marks_what_is_extrapolated(kept):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = lookahead_figure.draw(look_ahead_table().iloc[:kept])
        drawn.draw_without_rendering()
    texts = [text.get_text() for text in drawn.axes[0].texts]
    assert sum("extrapolated from" in text for text in texts) == (len(lookahead.SAMPLE) if kept == 99 else 0)


def test_a_peer_that_was_stopped_gives_a_bound():
    measured = table()
    peers = (measured.net == "resnet18") & (measured.points == 256) & measured.contender.str.startswith("neural")
    stopped = measured.assign(at_least=float("nan"))
    stopped.loc[peers, ["seconds", "peak_gib", "at_least", "seconds_by_round"]] = [float("nan"), 3.0, 240.0, None]
    row = bars.bars(stopped).query("net == 'resnet18' and points == 256 and output == 'full'").iloc[0]
    assert (row.had, row.bound, row.met) == (240.0, True, "yes")
    stopped.loc[peers, "at_least"] = 2.0
    row = bars.bars(stopped).query("net == 'resnet18' and points == 256 and output == 'full'").iloc[0]
    assert row.met == "not measured"
    stopped.loc[peers, ["peak_gib", "at_least"]] = [float("nan"), 240.0]  # half of its memory? unknown
    row = bars.bars(stopped).query("net == 'resnet18' and points == 256 and output == 'full'").iloc[0]
    assert row.met == "not measured"


ANSWERS = """
from bench.tools.perf import turns
counted = iter(range(9))
turns.serve(time=lambda: {"turn": next(counted)}, more=lambda: {"more": True})
"""


def test_a_program_lives_through_its_turns():
    with turns.Program([sys.executable, "-c", ANSWERS]) as program:
        assert [program.turn()["turn"] for _ in range(3)] == [0, 1, 2]
        assert program.turn("more") == {"more": True}
        program.close()
    assert program.process.returncode is not None


READY = "print('{}', flush=True); "


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import time; time.sleep(60)", {"note": "stopped after 1 s before it was ready"}),
        (READY + "import time; time.sleep(60)", {"note": "stopped after 1 s at work", "at_least": 1}),
        ("raise ValueError('no kernel')", {"note": "failed (1) before it was ready: ValueError: no kernel"}),
        (READY + "input(); raise ValueError('what')", {"note": "failed (1) at work: ValueError: what"}),
        (READY + "raise ValueError('deaf')", {"note": "failed (1) at work: ValueError: deaf"}),
    ],
)
def test_a_program_that_fails_says_how(code, found):
    with turns.Program([sys.executable, "-c", code], 1 if "sleep" in code else 60) as program:
        first = program.turn()
        assert program.turn() == first  # of the dead
        assert 0 < first.pop("peak_gib", 0.1) < 1
        assert first == found


def test_the_fastest_undisturbed_turn_counts():
    def turn(seconds, foreign):
        return {"seconds": seconds, "foreign": foreign, "repeats": 2, "peak_gib": seconds}

    quiet_ones = {"repeats": 6, "peak_gib": 3, "seconds_by_round": "3 2 nan"}
    assert turns.best([turn(3, 0), turn(2, 0), turn(1, 0.5)]) == turn(2, 0) | quiet_ones
    disturbed = {"repeats": 4, "peak_gib": 3, "seconds_by_round": "nan nan"}
    assert turns.best([turn(3, 0.4), turn(1, 0.5)]) == turn(1, 0.5) | disturbed
    assert turns.best([turn(3, 0), {"note": "failed"}])["seconds_by_round"] == "3 nan"
    assert turns.best([{"note": "stopped"}, {"note": "failed"}]) == {"note": "stopped"}


def test_other_machines_have_a_line_each(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "ROOT", tmp_path)
    monkeypatch.setattr(report, "PERF", tmp_path / "perf")
    assert report.kernel_elsewhere() == ""
    for name, processor, met in (("one", "Abacus", "no"), ("two", "Babbage", "yes")):
        folder = tmp_path / "perf" / name
        folder.mkdir(parents=True)
        pd.read_csv(config.ROOT / "results/perf/kernels.csv").assign(processor=processor).to_csv(folder / "kernels.csv")
        pd.read_csv(config.ROOT / "results/perf/kernels-bars.csv").assign(met=met).to_csv(folder / "kernels-bars.csv")
    first, second = report.kernel_elsewhere().split("(perf/one/kernels.csv)")
    assert "Abacus" in first
    assert " missed." in first
    assert "Babbage" in second
    assert " met in every round." in second
