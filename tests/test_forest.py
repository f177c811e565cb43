"""Forest plots: a bar per claim at its interval, the range in which it holds behind it, its verdict as its colour."""

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.text import Text

from bench.core import csv, study
from bench.report import forest, style
from bench.report.claims import COLUMNS, Measured, judged
from bench.report.figure import draw

NAN = float("nan")
VALUES = {
    "difference": ([0.01, 0.02, 0.03], "points", 0.0, NAN),
    "worse": ([-0.05, -0.05, -0.06], "points", 0.0, NAN),
    "level": ([0.9, 0.92, 0.91], "%", 0.94, NAN),
    "ratio": ([4.0, 4.2, 4.1], "times", 10.0, NAN),
    "exponent": ([-0.5, -0.6, -0.4], "", NAN, -0.3),
}


def ledger() -> pd.DataFrame:
    about = {"statement": "a statement of some length about", "published": "", "source": "", "quantity": ""}
    claims = pd.DataFrame(
        [
            about | {"claim": name, "where": f"fig. {k}", "holds_above": above, "holds_below": below}
            for k, (name, (_, _, above, below)) in enumerate(VALUES.items())
        ]
    )

    def measure(claim: dict, frames: dict, config: dict) -> list[Measured]:
        values, unit, *_ = VALUES[claim["claim"]]
        return [Measured(values, "thesis-panel", unit=unit)]

    return judged("any", claims, measure, {}, {"scale": "mine"})


@pytest.fixture(scope="module")
def figure(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "claims.csv"
    csv.write(ledger(), path)
    with mpl.rc_context(style.STYLE):
        found = forest.draw(csv.read(path), "nothing")  # as figures are given it
        found.draw_without_rendering()
    return found


def test_units_have_axes_of_their_own_and_every_claim_a_bar(figure):
    labels = [axes.get_xlabel() for axes in figure.axes]
    assert labels == ["difference of accuracy (points)", "accuracy (%)", "ratio", "value, in the unit of the claim"]
    points = figure.axes[0]
    bars = [line for line in points.lines if len(line.get_xdata()) == 2 and line.get_linewidth() > 2]
    rows = ledger()[lambda table: table["unit"] == "points"]
    for bar, row in zip(bars, rows.itertuples(), strict=True):
        assert list(bar.get_xdata()) == pytest.approx([100 * row.low, 100 * row.high])
        assert bar.get_color() == forest.INKS[row.verdict]
    assert [row.verdict for row in rows.itertuples()] == ["inconclusive", "not supported"]


def test_the_range_in_which_a_claim_holds_is_shaded(figure):
    ratio = figure.axes[2]
    (shade,) = [each for each in ratio.collections if isinstance(each, PolyCollection)]
    x = shade.get_paths()[0].vertices[:, 0]
    assert min(x) == pytest.approx(10)
    assert max(x) == pytest.approx(ratio.get_xlim()[1])


def test_all_of_it_is_on_the_page(figure):
    page = figure.bbox.padded(1)
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible() and text.get_fontsize() == 6.5:
            box = text.get_window_extent()
            assert page.contains(box.x0, box.y0), text
            assert page.contains(box.x1, box.y1), text


def test_the_committed_claims_are_drawn():
    table = csv.read(study.folder("lookahead").parents[2] / "results/cpu/tables/lookahead-claims.csv")
    assert list(table.columns) == COLUMNS
    assert draw("lookahead-forest", {"lookahead-claims": table}).axes
    (only,) = draw("lookahead-forest", {"lookahead-claims": table.iloc[:0]}).axes
    assert "no claim of chapter 2" in only.texts[0].get_text()
