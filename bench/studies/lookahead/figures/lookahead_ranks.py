"""Average ranks of the strategies over all settings: a critical-difference diagram (Demšar 2006)."""

import pandas as pd
import scikit_posthocs
from matplotlib.figure import Figure

from bench.report import style as _style
from bench.studies.lookahead.figures import departs

NAME = "lookahead-ranks"
TABLES = ("lookahead-ranks",)
TITLE = "Average rank of the strategies by area under the learning curve"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    table = tables["lookahead-ranks"]
    ranks = table[table["kind"] == "rank"].set_index("strategy_a")["value"].sort_values(kind="stable")
    if ranks.empty:
        return _style.empty("no setting with at least three strategies has finished cells of all of them")
    chosen = _style.styles(ranks.index)
    figure = Figure(figsize=(_style.TEXT_WIDTH, 0.9 + 0.2 * len(ranks)), layout="constrained")
    axes = figure.subplots()
    axes.grid(False)
    # Strategies go in as numbers: the library keeps them in sets, whose order for names changes from run to run.
    drawn = scikit_posthocs.critical_difference_diagram(
        dict(enumerate(ranks)),
        _p_values(table, ranks.index),
        ax=axes,
        label_fmt_left="{label}",
        label_fmt_right="{label}",
        label_props={"size": 8},
        elbow_props={"linewidth": 1},
        crossbar_props={"color": "0.2", "linewidth": 2.5},
        marker_props={"s": 14},
        color_palette={number: chosen[name]["color"] for number, name in enumerate(ranks.index)},
        text_h_margin=0.04 * len(ranks),
    )
    for label in drawn["labels"]:
        name, rank = list(ranks.items())[int(label.get_text())]
        label.set_text(f"{name} ({rank:.2f})" if label.get_ha() == "right" else f"({rank:.2f}) {name}")
    axes.spines["top"].set_visible(True)
    axes.set_xticks(range(1, len(ranks) + 1))
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("average rank by area under the learning curve (1 is best)")
    _footnote(figure, table)
    return figure


def _p_values(table: pd.DataFrame, names: pd.Index) -> pd.DataFrame:
    """Nemenyi's p as a symmetric matrix by number; 0 where there was no test, so that no bar claims one."""
    pairs = table[table["kind"] == "nemenyi"].dropna(subset="value")
    p = {frozenset((row["strategy_a"], row["strategy_b"])): row["value"] for _, row in pairs.iterrows()}
    return pd.DataFrame([[p.get(frozenset((a, b)), float(a == b)) for b in names] for a in names])


def _footnote(figure: Figure, table: pd.DataFrame) -> None:
    friedman = table[table["kind"] == "friedman"].iloc[0]
    tested = pd.notna(friedman["value"])
    _style.footnote(
        figure,
        f"Scale {friedman['scale']}; {friedman['data']}; {friedman['blocks_n']} blocks "
        f"(settings: {friedman['settings_n']}, seeds: {friedman['seeds_n']}).",
        f"Friedman's test: p = {friedman['value']:.2g}." if tested else f"No test: {friedman['note']}.",
        "A bar joins strategies that Nemenyi's test does not tell apart at 0.05." if tested else "",
        f"Diverged: {friedman['diverged']} runs." if friedman["diverged"] else "",
        "" if friedman["scale"] == "paper" else departs(friedman["scale"]),
    )
