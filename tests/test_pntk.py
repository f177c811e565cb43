"""The pseudo-NTK study from cell to table, claim and figure, on a few digits."""

import copy
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from bench.core import csv, paths, records, study
from bench.core.config import check
from bench.core.errors import UserError
from bench.core.journal import Journal
from bench.core.run import run
from bench.kernels.empirical import gram
from bench.kernels.regression import regress
from bench.learn import data as datasets
from bench.learn.train import predict
from bench.report import claims as ledger
from bench.report.figure import draw
from bench.studies import pntk
from bench.studies.pntk import Cell, tables
from bench.studies.pntk.measures import full, kernels, pair
from bench.studies.pntk.training import Points, build

SMALL = {"train": 12, "test": 10, "moments": [0, 2, 4], "precision": "float64"}
CONFIG = {
    "scale": "tiny",
    "pntk": {
        "seeds": [0, 1],
        "recipes": {"sgd": {"epochs": 4, "batch": 6}},
        "measures": {
            "kernels": SMALL,
            "full": SMALL | {"train": 150, "precision": "float32"},
            "surrogates": SMALL,
            "pair": {"train": 1, "test": 1, "moments": [0], "trained": False, "repeats": 2},
        },
        "panels": {
            "thesis-3.1": {
                "measure": "pair",
                "dataset": "noise",
                "nets": ["resnet18"],
                "widths": [64],
                "recipes": ["sgd+outputs=2", "sgd+outputs=4"],
                "seeds": [0],
            },
            "thesis-3.2-fcn": {
                "measure": "kernels",
                "dataset": "digits",
                "nets": ["fcn"],
                "widths": [8, 32],
                "recipes": ["sgd+rate=spectrum"],
            },
            "thesis-3.2-wrn-16": {
                "measure": "kernels",
                "dataset": "digits",
                "nets": ["wrn-16"],
                "widths": [1],
                "recipes": ["sgd"],
                "seeds": [0],
            },
            "thesis-3.9-fcn": {
                "measure": "full",
                "dataset": "digits",
                "nets": ["fcn"],
                "widths": [16, 32],
                "recipes": ["sgd+rate=spectrum"],
            },
            "thesis-A.5": {
                "measure": "kernels",
                "dataset": "digits",
                "nets": ["fcn", "fcn+activation=gelu"],
                "widths": [8, 32],
                "recipes": ["sgd+rate=spectrum"],
            },
            "thesis-A.10": {
                "measure": "kernels",
                "dataset": "digits",
                "nets": ["fcn"],
                "widths": [8, 16, 32],
                "recipes": ["sgd+trained=false"],
            },
            "layers": {
                "measure": "kernels",
                "dataset": "digits",
                "nets": ["fcn", "fcn+widen=last"],
                "widths": [8, 16, 32],
                "recipes": ["sgd+trained=false"],
                "seeds": [0],
            },
            "outputs": {
                "measure": "kernels",
                "dataset": "digits",
                "nets": ["fcn"],
                "widths": [16],
                "recipes": ["sgd+trained=false+outputs=2", "sgd+trained=false+outputs=5", "sgd+trained=false"],
                "seeds": [0],
            },
            "surrogates": {
                "measure": "surrogates",
                "dataset": "digits",
                "nets": ["fcn"],
                "widths": [32],
                "recipes": ["sgd+rate=spectrum"],
            },
            "memory": {
                "measure": "surrogates",
                "dataset": "digits",
                "nets": ["fcn"],
                "widths": [8],
                "recipes": ["sgd+trained=false"],
                "seeds": [0],
            },
        },
    },
}


@pytest.fixture(scope="module")
def config() -> dict:
    return check(CONFIG, "tests")


@pytest.fixture(scope="module")
def digits(root):
    return datasets.load("digits", root)


@pytest.fixture(scope="module")
def finished(config, root, tmp_path_factory) -> tuple[list[dict], list[dict]]:
    """Records and accounts of every cell of the tiny configuration."""
    folder = tmp_path_factory.mktemp("pntk")
    found, accounts = [], []
    for cell in pntk.cells(config):
        out = folder / f"{str(cell).replace('/', '_')}.json"
        settings = pntk.settings(config, cell)
        load = datasets.source(pntk.uses(cell)["datasets"], settings, root)
        run("pntk", "tiny", cell, settings, load, out, where="cpu")
        found.append(records.read(out, pntk.RECORD))
        accounts.append(records.read_json(paths.meta_path(out)))
    return found, accounts


@pytest.fixture(scope="module")
def frames(finished, config) -> dict[str, pd.DataFrame]:
    return tables.tables(*finished, config)


def of(finished, **wanted) -> dict:
    found = [r for r in finished[0] if all(r["cell"][key] == value for key, value in wanted.items())]
    assert found
    return found[0]


def test_a_record_at_initialisation_says_what_the_kernels_say(finished, config, digits):
    """Every number once more, from dense kernels of a net built here."""
    cell = Cell("kernels", "digits", "fcn", 32, "sgd+rate=spectrum", 1)
    settings = pntk.settings(config, cell)
    points, net = Points(cell, settings["protocol"], digits), build(cell, settings, digits, torch.device("cpu"))
    net, x, x_test = net.double().eval(), points.x.double(), points.x_test.double()
    record = of(finished, measure="kernels", net="fcn", width=32, recipe="sgd+rate=spectrum", seed=1)
    moment = record["moments"][0]
    theta, pseudo = gram(net, x), gram(net, x, output="pseudo")
    eigenvalues, of_pseudo = torch.linalg.eigvalsh(theta), torch.linalg.eigvalsh(pseudo)
    assert moment["theta_lambda_max"] == pytest.approx(eigenvalues[-1].item(), rel=1e-6)
    assert moment["theta_lambda_min"] == pytest.approx(eigenvalues[0].item(), rel=1e-4)
    assert moment["lambda_max"] == pytest.approx(abs(of_pseudo[-1] / eigenvalues[-1] - 1).item(), rel=1e-6)
    f, f_test = predict(net, x), predict(net, x_test)
    y = F.one_hot(points.y, 10).double()
    theirs = regress(theta, gram(net, x_test, x), y, (f, f_test)).prediction
    ours = regress(pseudo, gram(net, x_test, x, output="pseudo"), y, (f, f_test)).prediction
    assert moment["gap"] == pytest.approx(((ours - theirs).norm() / theirs.norm()).item(), rel=1e-4)
    additions = (ours - theirs).norm() / (theirs - f_test).norm()
    assert moment["gap_of_additions"] == pytest.approx(additions.item(), rel=1e-4)
    plain = [
        regress(k, c, y).prediction
        for k, c in ((theta, gram(net, x_test, x)), (pseudo, gram(net, x_test, x, output="pseudo")))
    ]
    assert moment["gap_without_prior"] == pytest.approx(
        ((plain[1] - plain[0]).norm() / plain[0].norm()).item(), rel=1e-4
    )
    assert moment["theta_accuracy"] == (theirs.argmax(1) == points.y_test).double().mean()
    assert moment["pseudo_accuracy_without_prior"] == (plain[1].argmax(1) == points.y_test).double().mean()
    assert moment["identity"] < 1e-12


def test_moments_are_where_the_protocol_says_and_batch_norm_is_looked_at_twice(finished):
    plain = of(finished, net="fcn", recipe="sgd+rate=spectrum", measure="kernels")["moments"]
    assert [(m["epoch"], m["statistics"]) for m in plain] == [(0, "none"), (2, "none"), (4, "none")]
    normed = of(finished, net="wrn-16")["moments"]
    expected = [(0, "initial"), (0, "one-pass"), (2, "trained"), (4, "trained")]
    assert [(m["epoch"], m["statistics"]) for m in normed] == expected
    assert normed[0]["frobenius"] != normed[1]["frobenius"]


def test_a_net_with_fewer_outputs_than_classes_has_kernels_and_no_predictions(finished):
    moment = of(finished, recipe="sgd+trained=false+outputs=2")["moments"][0]
    assert "frobenius" in moment
    assert "gap" not in moment
    assert "train_accuracy" not in moment


def test_regression_of_a_whole_set_equals_dense_regression_at_every_size(finished, config, digits):
    cell = Cell("full", "digits", "fcn", 32, "sgd+rate=spectrum", 0)
    settings = pntk.settings(config, cell)
    points, net = Points(cell, settings["protocol"], digits), build(cell, settings, digits, torch.device("cpu"))
    net, x, x_test = net.double().eval(), points.x.double(), points.x_test.double()
    moment = of(finished, measure="full", width=32, seed=0)["moments"][0]
    assert moment["sizes"] == [100, 150]
    kernel, cross = gram(net, x, output="pseudo"), gram(net, x_test, x, output="pseudo")
    f, f_test, y = predict(net, x), predict(net, x_test), F.one_hot(points.y, 10).double()
    for place, size in enumerate(moment["sizes"]):
        block = kernel[:size, :size] + moment["jitter"] * torch.eye(size, dtype=torch.float64)
        exact = f_test + cross[:, :size] @ torch.linalg.solve(block, y[:size] - f[:size])
        accuracy = (exact.argmax(1) == points.y_test).double().mean().item()
        assert moment["accuracies"][place] == pytest.approx(accuracy, abs=0.101)  # one image of ten, by rounding
    assert moment["residual"] < 1e-5


def test_unregularised_regression_interpolates(digits, config):
    cell = Cell("kernels", "digits", "fcn", 64, "sgd+trained=false", 0)
    settings = pntk.settings(config, cell)
    points, net = Points(cell, settings["protocol"], digits), build(cell, settings, digits, torch.device("cpu"))
    net = net.double().eval()
    k = gram(net, points.x.double(), output="pseudo")
    y = F.one_hot(points.y, 10).double()
    torch.testing.assert_close(regress(k, k, y).prediction, y, rtol=1e-5, atol=1e-5)


def test_a_pair_s_two_kernels_agree(finished):
    moment = of(finished, measure="pair", recipe="sgd+outputs=4")["moments"][0]
    assert moment["entk"] == pytest.approx(moment["pntk"], rel=1e-8)
    account = finished[1][finished[0].index(of(finished, measure="pair", recipe="sgd+outputs=4"))]
    assert len(account["seconds_per_step"]["entk"]) == 2  # the warm-up is apart


class Killed(Exception):
    pass


@pytest.mark.parametrize("measure", ["kernels", "full"])
@pytest.mark.parametrize("saves", [1, 2, 4])
def test_a_run_killed_after_any_save_continues_to_the_same_record(measure, saves, digits, config, tmp_path):
    cell = Cell(measure, "digits", "fcn", 16, "sgd+rate=spectrum", 0)
    settings, module = pntk.settings(config, cell), {"kernels": kernels, "full": full}[measure]
    journal = lambda name: Journal(tmp_path / name, "same", torch.device("cpu"), 1)  # noqa: E731
    whole = module.measure(cell, settings, digits, torch.device("cpu"), journal("whole.pt"))
    broken, left = journal("broken.pt"), [saves]
    save = broken.save

    def counted(state: dict) -> None:
        save(state)
        left[0] -= 1
        if not left[0]:
            raise Killed

    broken.save = counted
    with pytest.raises(Killed):
        module.measure(cell, settings, digits, torch.device("cpu"), broken)
    again = journal("broken.pt")
    again.open()
    assert module.measure(cell, settings, digits, torch.device("cpu"), again) == whole


def test_a_run_that_diverges_falls_back_and_then_says_so(digits, config, tmp_path):
    cell = Cell("kernels", "digits", "fcn", 32, "sgd", 0)
    settings = copy.deepcopy(pntk.settings(config, cell))
    settings["recipe"] |= {"lr": 1e4, "fallback_lr": 1e-4}
    journal = Journal(tmp_path / "a.pt", "a", torch.device("cpu"))
    found = kernels.measure(cell, settings, digits, torch.device("cpu"), journal)
    assert found["trained"]
    assert found["learning_rate"] == 1e-4
    assert [each["learning_rate"] for each in found["diverged"]] == [1e4]
    assert [m["epoch"] for m in found["moments"]] == [0, 2, 4]
    settings["recipe"]["fallback_lr"] = 1e5
    journal = Journal(tmp_path / "b.pt", "b", torch.device("cpu"))
    found = kernels.measure(cell, settings, digits, torch.device("cpu"), journal)
    assert not found["trained"]
    assert found["learning_rate"] is None
    assert len(found["diverged"]) == 2
    assert [m["epoch"] for m in found["moments"]] == [0]


def test_every_table_is_there_and_says_what_the_records_say(frames, finished):
    assert set(frames) == set(pntk.TABLES)
    for name, frame in frames.items():
        assert len(frame), name
    summary = frames["pntk-summary"]
    row = summary.query("panel == 'thesis-3.2-fcn' and width == 32 and epoch == 4 and quantity == 'frobenius'").iloc[0]
    errors = [
        r["moments"][-1]["frobenius"]
        for r in finished[0]
        if (r["cell"]["net"], r["cell"]["width"], r["cell"]["recipe"]) == ("fcn", 32, "sgd+rate=spectrum")
        and r["cell"]["measure"] == "kernels"
    ]
    assert row["n"] == 2
    assert row["mean"] == pytest.approx(math.exp(np.mean(np.log(errors))))
    whole = frames["pntk-full"].query("width == 32 and seed == 0").set_index("epoch")
    assert whole.loc[0, "minus_final"] == pytest.approx(whole.loc[0, "pseudo_accuracy"] - whole.loc[4, "accuracy"])
    memory = frames["pntk-memory"].query("train_points == 12").set_index("kernel")
    assert memory.loc["entk", "numbers"].max() == 100 * memory.loc["pntk", "numbers"].max()
    assert (frames["pntk-surrogates"].query("kernel == 'entk'")["tau"] == 1).all()


def test_every_claim_is_judged_and_stand_in_data_decide_nothing(frames):
    claims = frames["pntk-claims"]
    stated = csv.read(study.folder("pntk") / "claims.csv")
    assert set(claims["claim"]) == set(stated["claim"])
    measured = claims[(claims["n"] > 0) & ~claims["claim"].str.startswith(("P21", "P22"))]
    assert len(measured) > 20
    assert set(measured["verdict"]) == {"not comparable"}


def claim(name: str) -> dict:
    return csv.read(study.folder("pntk") / "claims.csv").set_index("claim", drop=False).loc[name].to_dict()


def judged(name: str, frames: dict, config: dict) -> pd.DataFrame:
    real = copy.deepcopy(config)
    for panel in real["pntk"]["panels"].values():
        panel["dataset"] = "noise" if panel["measure"] == "pair" else "cifar10"
    sound = tables.by_panel(tables.trusted(frames["pntk-moments"]), config["pntk"]["panels"], config["pntk"]["seeds"])
    measure = study.part("pntk", "claims").measure
    given = frames | {"sound": sound, "departures": {}}
    return ledger.judged("pntk", pd.DataFrame([claim(name)]), measure, given, real)


def altered(frames: dict, column: str, change) -> dict:
    moments = frames["pntk-moments"].copy()
    moments[column] = moments.apply(change, axis=1)
    return frames | {"pntk-moments": moments}


def test_claims_on_cases_with_a_known_answer(frames, config):
    wider = altered(frames, "off_on", lambda row: 1 / row["width"] * (1 + 0.01 * row["seed"]))
    row = judged("P01-diagonal", wider, config).query("setting == 'thesis-3.2-fcn'").iloc[0]
    assert row["verdict"] == "supported"
    assert row["measured"] == pytest.approx(8 / 32, rel=0.01)
    flat = altered(frames, "off_on", lambda row: row["width"] * (1 + 0.01 * row["seed"]))
    row = judged("P01-diagonal", flat, config).query("setting == 'thesis-3.2-fcn'").iloc[0]
    assert row["verdict"] == "not supported"


def test_what_rounding_or_jitter_decides_is_left_out(frames, config):
    """An unresolved eigenvalue says nothing of eigenvalues, an unsolved system nothing of predictions."""
    moments = frames["pntk-moments"].assign(theta_resolved=True, pseudo_resolved=True, theta_residual=1e-9)
    moments = moments.assign(pseudo_residual=1e-9, accuracy_difference=0.1, gap=0.5, lambda_min=2.0)
    poor = (moments["net"] == "fcn") & (moments["width"] == 8) & (moments["epoch"] == 2)
    moments.loc[poor, ["theta_residual", "accuracy_difference", "gap"]] = [0.3, 5.0, 9.0]
    moments.loc[moments["epoch"] == 0, "pseudo_resolved"] = False
    sound = tables.trusted(moments)
    assert sound.loc[poor, ["gap", "accuracy_difference"]].isna().all(axis=None)
    assert sound.loc[~poor, "gap"].eq(0.5).all()
    assert sound.loc[moments["epoch"] == 0, ["lambda_min", "condition", "pseudo_lambda_min"]].isna().all(axis=None)
    assert sound.loc[moments["epoch"] > 0, "lambda_min"].eq(2.0).all()
    row = (
        judged("P13-accuracy", frames | {"pntk-moments": moments}, config).query("setting == 'thesis-3.2-fcn'").iloc[0]
    )
    assert row["measured"] == pytest.approx(0.1)
    assert row["note"] == "2 of 12 moments without a solution left out"


def test_a_kernel_too_near_to_singular_for_float32_gets_more_jitter(digits, config, monkeypatch, tmp_path):
    """Points that are there twice: float32 cannot solve that at the first jitter, though it factorises."""
    cell = Cell("full", "digits", "fcn", 32, "sgd+trained=false", 0)
    settings = pntk.settings(config, cell)
    few = replace(digits, arrays={key: torch.cat([v[:75]] * 2) for key, v in digits.arrays.items()})
    monkeypatch.setattr(full, "JITTER", 1e-9)
    found = full.measure(cell, settings, few, torch.device("cpu"), Journal(tmp_path / "a", "a", torch.device("cpu")))
    moment = found["moments"][0]
    assert moment["residual"] <= full.RESIDUAL
    assert moment["relative_jitter"] > 1e-9


def test_claims_of_whole_datasets_on_cases_with_a_known_answer(frames, config):
    """Accuracy grows by a tenth every epoch, of which there are 0, 2 and 4, and by 0.01 from width 16 to 32."""
    whole = frames["pntk-full"].copy()
    whole["train_accuracy"] = 1.0
    whole["pseudo_accuracy"] = 0.1 * whole["epoch"] + 0.01 * (whole["width"] == 32) + 1e-4 * whole["seed"]
    expected = {"P27-fcn": (0.2, "not supported"), "P16-trained": (0.4, "supported"), "P15-width": (0.01, "supported")}
    for name, (value, verdict) in expected.items():
        row = judged(name, frames | {"pntk-full": whole}, config).iloc[0]
        assert row["measured"] == pytest.approx(value)
        assert row["verdict"] == verdict


def test_trained_kernels_of_a_net_that_does_not_fit_decide_nothing(frames, config):
    vanished = altered(frames, "gap", lambda row: 1e-6 * (1 + 0.01 * row["seed"]) if row["epoch"] else 1.0)
    vanished = altered(vanished, "theta_residual", lambda row: 1e-9)
    fitting = altered(vanished, "train_accuracy", lambda row: 1.0)
    row = judged("P11-vanish", fitting, config).query("setting == 'thesis-3.2-fcn'").iloc[0]
    assert row["verdict"] == "supported"
    poor = altered(vanished, "train_accuracy", lambda row: 0.5)
    row = judged("P11-vanish", poor, config).query("setting == 'thesis-3.2-fcn'").iloc[0]
    assert row["verdict"] == "not comparable"
    assert "does not fit its labels" in row["note"]


def test_only_panels_that_can_say_something_of_a_claim_are_asked(finished):
    """`initial-fcn` speaks for the trained one of initialisation; wrn-16 has one width, so says nothing of widths."""
    mine = CONFIG["pntk"]["panels"]
    panels = mine | {"initial-fcn": mine["thesis-A.10"], "thesis-3.9-lone": mine["thesis-3.9-fcn"] | {"seeds": [0]}}
    richer = check(CONFIG | {"pntk": CONFIG["pntk"] | {"panels": panels}}, "tests")
    asked = tables.tables(*finished, richer)["pntk-claims"].groupby("claim")["setting"].agg(set)
    assert asked["P01-diagonal"] == {"initial-fcn"}
    assert asked["P11-vanish"] == {"thesis-3.2-fcn", "thesis-3.2-wrn-16"}
    assert asked["P16-trained"] == {"thesis-3.9-fcn, fcn, N = 150"}


@pytest.mark.parametrize("name", study.figures("pntk"))
def test_every_figure_is_drawn_from_full_and_from_empty_tables(name, frames):
    figure = draw(name, frames)
    assert figure.axes
    assert any(axes.lines or axes.collections or axes.patches for axes in figure.axes)
    empty = {table: frame.iloc[:0] for table, frame in frames.items()}
    texts = [text.get_text() for axes in draw(name, empty).axes for text in axes.texts]
    assert any("No finished cells" in text for text in texts)


@pytest.mark.parametrize("name", study.figures("pntk"))
def test_every_figure_can_be_read(name, frames):
    """All text is on the page, large enough, and titles do not touch; the footnote is short."""
    figure = draw(name, frames)
    page = figure.bbox
    assert all(note.get_text().count("\n") < 3 for note in figure.texts)
    loose = [
        *figure.texts,
        *(text for axes in figure.axes for text in (axes.title, axes.xaxis.label, axes.yaxis.label)),
    ]
    for text in (text for text in loose if text.get_text()):
        assert text.get_fontsize() >= 6
        box = text.get_window_extent()
        assert page.x0 <= box.x0, text
        assert box.x1 <= page.x1 + 1, text
        assert page.y0 <= box.y0, text
        assert box.y1 <= page.y1 + 1, text
    titles = [axes.title.get_window_extent() for axes in figure.axes if axes.get_title()]
    assert not any(a.overlaps(b) for place, a in enumerate(titles) for b in titles[:place])


def test_the_control_is_drawn_beside_fig_3_7(frames):
    axes = next(axes for axes in draw("thesis-3.7", frames).axes if axes.get_title().startswith("FCN"))
    assert {line.get_linestyle() for line in axes.lines} >= {"-", "--"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nets": ["fnc"]}, "unknown net 'fnc'; did you mean 'fcn'?"),
        ({"measure": "kernel"}, "unknown measure 'kernel'; did you mean 'kernels'?"),
        ({"dataset": "digit"}, "unknown dataset 'digit'"),
        ({"recipes": ["sgd+train=100000"]}, "100000 train points, but digits has"),
        ({"recipes": ["sgd+average_pool=9"]}, "average_pool 9, but images have"),
        ({"recipes": ["sgd+epochs=3"]}, "3 epochs of training, but no moment at its end: [0, 2, 4]"),
        ({"recipes": ["sgd+trian=9"]}, "unknown key after 'sgd' 'trian'; did you mean 'train'?"),
        ({"measure": "pair", "dataset": "noise", "nets": ["resnet19"]}, "unknown net of torchvision 'resnet19'"),
        ({"measure": "pair", "nets": ["resnet18"]}, "a pair is of 'noise'"),
        ({"widths": []}, "at least 1 entry"),
    ],
)
def test_mistakes_are_one_line(changes, words):
    panel = CONFIG["pntk"]["panels"]["thesis-3.2-fcn"] | changes
    with pytest.raises(UserError) as error:
        check(CONFIG | {"pntk": CONFIG["pntk"] | {"panels": {"mine": panel}}}, "my.yaml")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_more_points_than_a_partial_file_has_are_refused(digits, config):
    cell = Cell("kernels", "digits", "fcn", 8, "sgd", 0)
    few = replace(digits, arrays={key: value[:5] for key, value in digits.arrays.items()})
    with pytest.raises(UserError, match="train: 12 points wanted, digits has 5"):
        Points(cell, pntk.settings(config, cell)["protocol"], few)


def test_departures_name_what_differs():
    config = check(CONFIG, "tests")
    said = study.texts(pntk.departures(config))
    assert "widths 8/32 (paper 64/128/256/512/1024/2048)" in said["thesis-3.2-fcn"]
    assert "rate spectrum (paper given)" in said["thesis-3.2-fcn"]
    assert not pntk.departures(check({"scale": "paper"}, "tests"))


def test_only_the_measure_that_a_cell_uses_is_in_its_digest():
    from bench.core import digest

    covered = digest.covered(*digest.modules_of_cell("pntk", Cell("pair", "noise", "resnet18", 64, "sgd", 0)))
    assert "bench.studies.pntk.measures.pair" in covered
    assert "bench.studies.pntk.measures.full" not in covered


def test_a_record_is_json_and_repeatable(finished, config, root, tmp_path):
    cell = next(cell for cell in pntk.cells(config) if cell.measure == "full")
    settings = pntk.settings(config, cell)
    load = datasets.source(["digits"], settings, root)
    out = run("pntk", "tiny", cell, settings, load, tmp_path / "again.json", where="cpu")
    assert json.loads(Path(out).read_text()) == of(finished, **vars(cell))


def test_pair_has_no_dataset():
    assert pair.SHAPE == (3, 32, 32)
    assert pntk.uses(Cell("pair", "noise", "resnet18", 64, "sgd", 0))["datasets"] == []
