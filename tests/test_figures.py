"""Every registered figure, from small made tables: it draws, can be read, and has the same bytes each time."""

import os
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from test_tables import frozen  # noqa: F401

from bench.core import csv, study
from bench.core.errors import UserError
from bench.report import figure as figures
from bench.report import style as _style
from bench.studies.lookahead import significance, tables, times
from bench.studies.lookahead.curves import curves as curves_of

ROOT = Path(__file__).parent.parent
OTHERS = ("lookahead-forest", "lookahead-diagnosis")  # in test_forest.py and test_diagnosis.py
FIGURES = {name: figure for name, figure in study.figures("lookahead").items() if name not in OTHERS}
SIX = ["random", "entropy", "margin", "badge", "ll4al", "ntk"]
NTKS = ["naive+timed=sample", "ntk", "ntk+solve=resolve", "ntk+query=sequential", "ntk+kernel=full", "one-step", "gp"]
LONG = ["random", "ntk", "ntk+kernel=first-logit", "ntk+kernel=full+mode=sequential", "least-confidence", "mystery"]
SETTINGS = {
    "thesis-2.2a": ("svhn", "wrn", 640),
    "thesis-2.2b": ("cifar10", "wrn+layers=2", 640),
    "thesis-2.2c": ("cifar100", "resnet18", 4),
    "thesis-A.1a": ("mnist", "wrn", 640),
    "thesis-A.1b": ("svhn", "wrn+layers=2", 640),
    "thesis-A.1c": ("svhn", "resnet18", 4),
    "thesis-A.1d": ("cifar10", "resnet18", 4),
}
VARIANTS = {
    "thesis-2.1a": ("mnist", "wrn", 640),
    "thesis-2.1b": ("mnist", "wrn", 640),
    "thesis-2.3-left": ("mnist", "wrn", 640),
    **{f"thesis-2.3-width-{width}": ("mnist", "wrn", width) for width in (40, 80, 160, 320, 640)},
    "thesis-2.3-right": ("mnist", "wrn", 640),
    "thesis-3.15": ("mnist", "wrn", 640),
    "thesis-A.2a-random": ("cifar100", "resnet18", 4),
    **{f"thesis-A.2a-lr-{lr}": ("cifar100", "resnet18", 4, f"l2+lr={lr}") for lr in (0.3, 0.1, 0.03, 0.01, 0.003)},
    "thesis-A.2b-l2": ("mnist", "wrn", 640),
    "thesis-A.2b-ce": ("mnist", "wrn", 640, "cross-entropy"),
    **{f"thesis-A.3{x}-lr-{lr}": ("svhn", "wrn", 640, f"ll4al+lr={lr}") for x in "abcd" for lr in (0.1, 0.5, 1)},
}


def of(panel: str, strategies: list[str]) -> list[str]:
    """The strategies of a panel; those of learning rates and losses have few."""
    few = {
        "thesis-A.2a": ("ll4al", "ll4al+loss=sum", "random"),
        "thesis-A.2b": ("ntk", "random"),
        "thesis-A.3": ("ll4al", "random"),
    }
    allowed = next((names for start, names in few.items() if panel.startswith(start)), strategies)
    return [strategy for strategy in strategies if strategy in allowed]


def made(
    settings: dict, strategies: list[str], seeds: int, cycles: int, diverged: tuple[str, ...] = (), **data
) -> dict[str, pd.DataFrame]:
    """The tables of random curves, as they come back from disk (empty text as NaN); `diverged` names recipes."""
    settings = {name: (*setting, "l2")[:4] for name, setting in settings.items()}
    panels = {
        name: dict(zip(("dataset", "net", "width", "recipe"), setting, strict=True))
        | {"strategies": of(name, strategies)}
        for name, setting in settings.items()
    }
    rng = np.random.default_rng(0)
    facts = {"train": 50_000, "test": 10_000, "partial": False, "checksum": "c", "average_pool": 1} | data
    records = [
        {
            **{"scale": "quick", "settings_hash": "h", "device": "cpu", "learning_rate": 1.0},
            "only_timed": strategy.startswith("naive"),
            "diverged": {"cycle": 0} if recipe in diverged and strategy == "ll4al" else None,
            "cell": {
                "dataset": dataset,
                "net": net,
                "width": width,
                "recipe": recipe,
                "strategy": strategy,
                "seed": seed,
            },
            "data": facts | {"name": dataset},
            "cycles": [
                {"cycle": c, "labelled": 1000 * (c + 1), "test_accuracy": 0.9 - 0.4 / (c + 1) + 0.01 * rng.normal()}
                | {"test_loss": 0.1, "train_loss": 0.1, "train_accuracy": 1.0, "queried": [], "bought": {}}
                | {"notes": {"scored": 8, "candidates": 4000} if strategy.startswith("naive") else {}}
                for c in range(cycles)
            ],
        }
        for dataset, net, width, recipe in sorted(set(settings.values()))
        for strategy in strategies
        for seed in range(seeds)
    ]
    curves = curves_of(records)
    compared = {
        name: panel | {"strategies": [each for each in panel["strategies"] if not each.startswith("naive")]}
        for name, panel in panels.items()
    }
    deviations = {
        name: f"seeds {seeds} (paper 6), width {width} (paper 640)" for name, (_, _, width, _) in settings.items()
    }
    spent = {"query": [1 + rng.random() for _ in range(cycles - 1)]}
    meta = {"device": {"name": "AMD EPYC"}, "threads": 1, "seconds_per_step": spent}
    queries = times.queries(records, [meta] * len(records))
    frames = {
        "lookahead-summary": tables.summary(curves, panels, deviations),
        "lookahead-ranks": significance.ranks(curves, compared),
        "lookahead-times-per-cycle": times.per_cycle(queries, panels),
    }
    return {name: frame.replace("", np.nan) for name, frame in frames.items()}


def some(start: str) -> dict:
    return {name: setting for name, setting in (SETTINGS | VARIANTS).items() if name.startswith(start)}


def digits(*panels: str) -> dict:
    return dict.fromkeys(panels, ("digits", "wrn", 16))


CASES = {
    "paper": (SETTINGS, SIX, 6, 10),
    "variants": (VARIANTS, [*NTKS, "ll4al", "ll4al+loss=sum", "random"], 2, 4, ("ll4al+lr=1", "l2+lr=0.3")),
    "few variants": (
        some("thesis-2.1")
        | some("thesis-2.3-left")
        | some("thesis-2.3-width-40")
        | some("thesis-2.3-right")
        | some("thesis-3")
        | some("thesis-A.2a-r")
        | some("thesis-A.2a-lr-0.3")
        | some("thesis-A.2b")
        | some("thesis-A.3a"),
        *([*NTKS, "ll4al", "ll4al+loss=sum", "random"], 2, 3, ("ll4al+lr=1",)),
    ),
    "two cycles, long names": ({name: SETTINGS[name] for name in ("thesis-2.2a", "thesis-A.1b")}, LONG, 2, 2),
    "one seed, one panel each": (digits("thesis-2.2b", "thesis-A.1d"), SIX[:3], 1, 6),
    "one cycle": (digits("thesis-2.2a", "thesis-A.1a"), SIX[:2], 2, 1),
    "one cycle, one seed": (digits("thesis-2.2a", "thesis-A.1a"), SIX[:2], 1, 1),
    "without random": (digits("thesis-2.2a", "thesis-A.1a"), SIX[1:4], 2, 3),
    "nothing": (digits("thesis-9"), SIX[:2], 1, 1),
}


QUICK = ("few variants", "nothing")


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, id=name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES],
)
def case(request) -> dict[str, pd.DataFrame]:
    return made(*CASES[request.param])


def texts(figure) -> list[Text]:
    with mpl.rc_context(_style.STYLE):
        figure.draw_without_rendering()
    return [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]


@pytest.mark.parametrize("name", FIGURES)
def test_figures_can_be_read(name, case):
    """No small type, nothing off the page, no panel title on another; each strategy once in the legend."""
    needed = FIGURES[name].constants["TABLES"]
    assert set(needed) <= set(case), "make this table above, so that the figure is tested"
    figure = figures.draw(name, case)
    page = figure.bbox.padded(1)
    shown = texts(figure)
    axis = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    ticks = {
        label for each in axis for tick in (*each.majorTicks, *each.minorTicks) for label in (tick.label1, tick.label2)
    }
    assert all(note.get_text().count("\n") < 3 for note in figure.texts)  # more than three lines nobody reads
    for text in shown:
        assert text.get_fontsize() >= 6
        box = text.get_window_extent()
        drawn = text not in ticks  # those beyond the limits of their axes have a text but are not drawn
        assert not drawn or (page.contains(box.x0, box.y0) and page.contains(box.x1, box.y1)), text
    titles = [axes.title.get_window_extent() for axes in figure.axes if axes.get_title()]
    assert not any(a.overlaps(b) for place, a in enumerate(titles) for b in titles[:place])
    for legend in figure.legends:
        names = [text.get_text() for text in legend.get_texts()]
        assert len(names) == len(set(names))
        lines = {line.get_label() for axes in figure.axes for line in axes.lines if line.get_label()[0] != "_"}
        assert set(names) >= lines
        shown = {name.partition(",")[0] for name in names} - {"naive"}
        assert shown <= set(case["lookahead-summary"]["strategy"])
        assert not any(legend.get_window_extent().overlaps(title) for title in titles)


def test_numbers_of_random_do_not_touch():
    figure = figures.draw("thesis-2.2", made(some("thesis-2.2"), SIX[:3], 2, 10))
    texts(figure)
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) == 10
        assert not any(a.overlaps(b) for place, a in enumerate(boxes) for b in boxes[:place])
        lowest = min(line.get_window_extent().y0 for line in axes.lines)
        assert all(box.y1 < lowest for box in boxes)


def test_what_the_curves_show():
    few = ["random", "entropy", "ntk"]
    drawn = made(SETTINGS, few, 2, 3)
    summary = drawn["lookahead-summary"]
    rows = summary[(summary["panel"] == "thesis-2.2b") & (summary["strategy"] == "ntk")]
    by_difference = figures.draw("thesis-2.2", drawn).axes[1]
    assert by_difference.get_title() == "(b) CIFAR-10, 2-layer WRN,\nwidth 640"
    line = next(line for line in by_difference.lines if line.get_label() == "ntk")
    assert line.get_ydata() == pytest.approx(100 * rows["difference_mean"].to_numpy())
    plain = figures.draw("thesis-A.4", drawn)
    line = next(line for line in plain.axes[1].lines if line.get_label() == "ntk")
    assert line.get_ydata() == pytest.approx(100 * rows["accuracy_mean"].to_numpy())
    assert len(plain.axes) == 7
    assert all(len(axes.collections) == len(few) for axes in plain.axes)  # shaded intervals


def test_panels_of_one_setting_are_drawn_once():
    figure = figures.draw(
        "thesis-A.4", made(digits("thesis-2.2a", "thesis-A.1a", "thesis-A.1d"), SIX, 2, 3, partial=True)
    )
    (axes,) = figure.axes
    assert axes.get_title().replace("\n", " ") == "2.2a = A.1a = A.1d: digits, 1-layer WRN, width 16, partial data"
    assert len(axes.lines) == len(SIX)


def bars(figure) -> dict[tuple, list[float]]:
    """Heights of the bars by colour and hatch."""
    return {
        (group.patches[0].get_edgecolor()[:3], group.patches[0].get_hatch()): [bar.get_height() for bar in group]
        for group in figure.axes[1].containers
    }


def test_times_are_bars_and_extrapolated_ones_are_hatched_without_a_line():
    drawn = made(some("thesis-2.1a"), [*NTKS[:3]], 2, 4)
    figure = figures.draw("thesis-2.1a", drawn)
    left, right = figure.axes
    assert {line.get_label() for line in left.lines} == {"ntk", "ntk+solve=resolve"}
    assert right.get_yscale() == "log"
    per_cycle = drawn["lookahead-times-per-cycle"]
    shown = per_cycle[(per_cycle["panel"] == "thesis-2.1a") & (per_cycle["strategy"] == NTKS[0])]
    (hatched,) = [heights for (_, hatch), heights in bars(figure).items() if hatch]
    assert hatched == pytest.approx(shown["seconds_mean"].tolist())
    assert min(hatched) > 500  # 4,000 / 8 times a second or two
    (note,) = [text.get_text().replace("\n", " ") for text in figure.texts]
    assert "Hatched: naive, timed on a sample of the candidates, so no accuracy." in note


def test_rates_leave_out_what_diverged_and_say_so():
    figure = figures.draw("thesis-A.3", made(some("thesis-A.3"), ["ll4al", "random"], 2, 3, ("ll4al+lr=1",)))
    for axes in figure.axes:
        assert {line.get_label() for line in axes.lines} == {
            *("ll4al, rate 0.1", "ll4al, rate 0.5", "random, rate 0.1", "random, rate 0.5", "random, rate 1")
        }
    (note,) = [text.get_text().replace("\n", " ") for text in figure.texts]
    assert "Diverged: 2 runs." in note  # the panels share them


def test_rates_show_both_losses_of_ll4al():
    drawn = made(some("thesis-A.2a"), ["ll4al", "ll4al+loss=sum", "random"], 2, 3)
    lines = {line.get_label(): line for line in figures.draw("thesis-A.2", drawn).axes[0].lines}
    both = [lines["ll4al, rate 0.1"], lines["ll4al+loss=sum, rate 0.1"]]
    assert both[0].get_color() == both[1].get_color()  # of the rate
    assert [line.get_linestyle() for line in both] == ["-", ":"]


def test_ranks_say_how_many_runs_diverged():
    settings = {"thesis-A.1a": ("mnist", "wrn", 640)}
    for diverged, said in ((("l2",), True), ((), False)):
        figure = figures.draw("lookahead-ranks", made(settings, SIX, 3, 3, diverged))
        (note,) = [text.get_text().replace("\n", " ") for text in figure.texts]
        assert ("Diverged: 3 runs." in note) == said


def test_widths_show_the_gain_over_random():
    drawn = made(some("thesis-2.3"), ["ntk", "random"], 2, 3)
    middle = figures.draw("thesis-2.3", drawn).axes[1]
    summary = drawn["lookahead-summary"]
    rows = summary[(summary["panel"] == "thesis-2.3-width-80") & (summary["strategy"] == "ntk")]
    line = next(line for line in middle.lines if line.get_label() == "ntk, width 80")
    assert line.get_ydata() == pytest.approx(100 * rows["difference_mean"].to_numpy())


def test_one_bad_strategy_does_not_squeeze_the_others():
    drawn = made({"thesis-2.2b": ("cifar10", "wrn", 640)}, SIX, 6, 3)
    summary = drawn["lookahead-summary"]
    bad = summary["strategy"] == "ll4al"
    for column in ("difference_mean", "difference_low", "difference_high"):
        summary.loc[bad, column] = -0.5
    low, high = figures.draw("thesis-2.2", drawn).axes[0].get_ylim()
    assert low > -45
    assert high > 100 * summary.loc[~bad, "difference_mean"].max()


def test_an_empty_figure_says_so():
    (text,) = texts(figures.draw("thesis-2.2", made(*CASES["nothing"])))
    assert text.get_text().replace("\n", " ") == "no finished cells for panels thesis-2.2a, thesis-2.2b, thesis-2.2c"


def test_footnote_says_scale_data_seeds_and_departures():
    figure = figures.draw(
        "thesis-2.2", made({"thesis-2.2a": ("digits", "wrn", 16)} | {"thesis-2.2b": ("digits", "wrn", 32)}, SIX, 3, 4)
    )
    (note,) = [text.get_text().replace("\n", " ") for text in figure.texts]
    assert "Scale quick; digits, 50,000 train / 10,000 test; n = 3 seeds." in note
    assert "Departs from the paper: see lookahead-departures.csv." in note
    assert "No cells: 2.2c." in note


def test_footnote_of_many_datasets_and_devices_and_of_the_paper_s_own_setting():
    drawn = made(some("thesis-2.2"), SIX[:2], 2, 3)
    summary = drawn["lookahead-summary"]
    summary["deviations"] = np.nan
    summary.loc[summary["panel"] == "thesis-2.2a", "device"] = "cuda"
    (note,) = [text.get_text().replace("\n", " ") for text in figures.draw("thesis-A.4", drawn).texts]
    assert "Scale quick, on cpu, cuda; svhn, cifar10, cifar100; n = 2 seeds." in note
    assert "Departs" not in note


def test_footnote_names_the_shading_where_there_is_any():
    crowd = sorted({*SIX, *NTKS, "gp-random", "infinite", "coreset"})
    for strategies, shaded in ((SIX, True), (crowd, False)):
        figure = figures.draw("lookahead-panels", made(some("thesis-2.2a"), strategies, 2, 2))
        (note,) = [text.get_text().replace("\n", " ") for text in figure.texts]
        assert ("Shading: 95% t-interval." in note) == shaded


@pytest.mark.parametrize(
    ("values", "labels"), [((0.06, 0.9), {"0.1", "0.2", "0.5"}), ((1e-3, 50), {"0.001", "0.1", "10"})]
)
def test_logarithmic_axes_have_numbers_as_people_write_them(values, labels):
    axes = mpl.figure.Figure().subplots()
    axes.plot(values)
    _style.log_axis(axes)
    axes.figure.canvas.draw()
    low, high = axes.get_ylim()
    shown = [t.get_text() for t in axes.get_yticklabels() if low <= t.get_position()[1] <= high]
    assert labels <= set(shown)
    assert all(float(text) > 0 for text in shown)
    assert ("0.2" in shown) == ("0.2" in labels)


def test_a_strategy_looks_the_same_in_every_figure():
    few, many = _style.styles(["ntk+kernel=full", "ntk", "random"]), _style.styles([*SIX, *LONG, "ntk+kernel=full"])
    assert all(many[name] == style for name, style in few.items())
    looks = [(style["color"], style["marker"], style["linestyle"]) for style in many.values()]
    assert len(looks) == len(set(looks))
    assert next(iter(many)) == "random"


def test_unknown_figures_and_missing_tables_are_named():
    with pytest.raises(UserError, match="thesis-A"):
        figures.draw("thesis-22", {})
    with pytest.raises(UserError, match="lookahead-summary"):
        figures.draw("thesis-2.2", {})


ELSEWHERE = """
import sys
import pandas as pd
from bench.report import figure as figures
from bench.core import study
folder = sys.argv[1]
for name in sys.argv[2:]:
    needed = study.figures("lookahead")[name].constants["TABLES"]
    found = {table: pd.read_csv(f"{folder}/{table}.csv") for table in needed}
    figures.save(figures.draw(name, found), f"{folder}/there/{name}")
assert "torch" not in sys.modules
"""


def test_same_tables_same_bytes(tmp_path):
    drawn = made(digits("thesis-2.2b"), SIX[:2], 2, 2)
    one, other = (figures.save(figures.draw("thesis-2.2", drawn), tmp_path / name / "x") for name in "ab")
    assert [path.name for path in one] == ["x.png", "x.pdf"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]


@pytest.mark.slow
def test_same_tables_same_bytes_in_another_process_without_torch(tmp_path):
    for name, frame in made(digits("thesis-2.2b", "thesis-A.1d", *VARIANTS), LONG, 3, 3).items():
        csv.write(frame, tmp_path / f"{name}.csv")
    command = [sys.executable, "-W", "error::UserWarning", "-c", ELSEWHERE, str(tmp_path), *FIGURES]
    there = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7"})
    written = []
    for name, component in FIGURES.items():
        found = {table: pd.read_csv(tmp_path / f"{table}.csv") for table in component.constants["TABLES"]}
        written += figures.save(figures.draw(name, found), tmp_path / "here" / name)
    assert there.wait(timeout=120) == 0
    assert sorted(written) == sorted((tmp_path / "here").iterdir())
    for here in written:
        assert here.read_bytes() == (tmp_path / "there" / here.name).read_bytes()
