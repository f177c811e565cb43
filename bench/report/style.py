"""One look for all figures: type sizes, a colour and marker per strategy, names for people, and footnotes."""

import re
import zlib
from collections.abc import Iterable

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from bench.core import registry

mpl.use("Agg")  # libraries that ask pyplot for axes must not look for a screen

TEXT_WIDTH, SINGLE_WIDTH = 6.75, 4.4  # inches, of a page with several panels in a row, and of a panel alone
SMALL = 7  # points, the smallest text
STYLE = {
    **sns.axes_style("ticks", {"grid.color": "0.92", "axes.grid": True}),
    "font.family": "DejaVu Sans",  # comes with matplotlib, so every machine draws the same
    "font.size": 8,
    **{"axes.titlesize": 8, "axes.labelsize": 8, "xtick.labelsize": SMALL, "ytick.labelsize": SMALL},
    **{"legend.fontsize": SMALL + 0.5, "legend.frameon": False, "legend.handlelength": 3},
    **{"axes.linewidth": 0.7, "grid.linewidth": 0.6, "lines.linewidth": 1.3, "lines.markersize": 4},
    **{"xtick.major.width": 0.7, "ytick.major.width": 0.7, "xtick.major.size": 3, "ytick.major.size": 3},
    **{"axes.spines.right": False, "axes.spines.top": False},
    **{"pdf.fonttype": 42, "svg.hashsalt": "bench"},
}

# Colours of Okabe and Ito, and of Tol's muted scheme after those: apart for colour-blind readers too.
STRATEGIES = {
    "random": {"color": "#333333", "marker": "o"},
    "gp-random": {"color": "#888888", "marker": "o", "linestyle": "--"},
    "entropy": {"color": "#0072B2", "marker": "s"},
    "margin": {"color": "#009E73", "marker": "^"},
    "least-confidence": {"color": "#56B4E9", "marker": "v"},
    "badge": {"color": "#CC79A7", "marker": "D"},
    "ll4al": {"color": "#E69F00", "marker": "P"},
    "coreset": {"color": "#882255", "marker": "X"},
    "ntk": {"color": "#D55E00", "marker": "*", "markersize": 6},
    "one-step": {"color": "#44AA99", "marker": "<"},
    "infinite": {"color": "#999933", "marker": ">"},
    "gp": {"color": "#AA4499", "marker": "h"},
    "naive": {"color": "#332288", "marker": "d"},
}
# Looks of what has none of its own: turns whose lengths share no factor, so that no two of many are alike
OTHER_COLOURS = ("#117733", "#661100", "#6699CC", "#AA4466", "#B8A038", "#7B3FA0", "#2E8B8B")
OTHER_LINES, OTHER_MARKERS = ("--", ":", "-."), "sD^vo<>p"
OTHERS = [(OTHER_COLOURS[n % 7], OTHER_MARKERS[n % 8], OTHER_LINES[n % 3]) for n in range(7 * 8 * 3)]

DATASETS = {"mnist": "MNIST", "svhn": "SVHN", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
NETS = {"wrn": "1-layer WRN", "wrn+layers=2": "2-layer WRN", "resnet18": "ResNet18", "fcn": "FCN", "convnet": "ConvNet"}

LABELLED = "labelled images"
ACCURACY = "test accuracy (%)"
DIFFERENCE = "difference from random\n(percentage points)"


def styles(strategies: Iterable[str]) -> dict[str, dict]:
    """Line style of each strategy, in the order of a legend; the same in every figure.

    A variant (`ntk+kernel=first`), or a strategy of your own, has a colour, an open marker and a broken line chosen by
    its name; only if two of one figure fall on the same colour does the later in the alphabet move on.
    """
    names = sorted(set(strategies))
    known = [name for name in STRATEGIES if name in names]
    chosen = {name: {"linestyle": "-"} | STRATEGIES[name] for name in known}
    taken = set()
    for name in sorted(set(names) - set(known)):
        number = zlib.crc32(name.encode())
        looks = [OTHERS[(number + step) % len(OTHERS)] for step in range(len(OTHERS))]
        colour, marker, line = next((look for look in looks if look[0] not in taken), looks[0])
        taken.add(colour)
        chosen[name] = {"color": colour, "marker": marker, "linestyle": line, "markerfacecolor": "white"}
    order = {name: place for place, name in enumerate(STRATEGIES)}
    return dict(sorted(chosen.items(), key=lambda item: (order.get(item[0].partition("+")[0], len(order)), item[0])))


def ladder(names: Iterable[str]) -> dict[str, dict]:
    """A style each for names that stand for rising numbers: from light to dark."""
    names = list(names)
    shades = mpl.colormaps["viridis_r"](np.linspace(0.1, 1, len(names)))
    markers = "osD^v<>ph"
    return {
        name: {"color": mpl.colors.to_hex(shade), "marker": markers[place % len(markers)], "linestyle": "-"}
        for place, (name, shade) in enumerate(zip(names, shades, strict=True))
    }


def legend(figure: Figure, chosen: dict[str, dict], bars: dict[str, dict] | None = None) -> None:
    """One legend above all panels, in as many columns as fit; the figure grows by its height.

    A name in `bars` has no line in the figure, only bars of that look.
    """
    handles = [
        Patch(label=name, **bars[name]) if name in (bars or {}) else Line2D([], [], label=name, **style)
        for name, style in chosen.items()
    ]
    for columns in range(len(handles), 0, -1):
        parts = np.array_split(list(chosen), columns)  # as matplotlib fills the columns
        if sum(0.6 + max(inches(name, SMALL + 0.5) for name in part) for part in parts) < figure.get_figwidth():
            break
    figure.set_figheight(figure.get_figheight() + 0.16 * len(parts[0]))
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, columnspacing=1.2, handletextpad=0.5)


def log_axis(axes: Axes, which: str = "y") -> None:
    """A logarithmic axis with numbers as people write them: decades, and 2 and 5 between where there are few."""
    getattr(axes, f"set_{which}scale")("log")
    low, high = getattr(axes, f"get_{which}lim")()
    axis = {"x": axes.xaxis, "y": axes.yaxis}[which]
    axis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if 1e-4 <= value < 1e5 else f"{value:.0e}"))
    axis.set_minor_locator(NullLocator())


def inches(text: str, points: float) -> float:
    """Width of a line of text; a little more than that of its outlines, which screens round up."""
    font = FontProperties(family=STYLE["font.family"], size=points)
    return 1.04 * text_to_path.get_text_width_height_descent(text, font, ismath=False)[0] / 72


def wrap(text: str, width: float, points: float, gap: str = " ") -> str:
    """The text in lines of at most that many inches, broken at gaps (a regular expression)."""
    lines: list[str] = []
    for piece in re.split(gap, text):
        if lines and inches(longer := f"{lines[-1]} {piece}", points) <= width:
            lines[-1] = longer
        else:
            lines.append(piece)
    return "\n".join(lines)


def setting_title(row: pd.Series) -> str:
    """`MNIST, 1-layer WRN, width 640`, with marks for partial and pooled data."""
    nets = registry.components("nets")
    unit = nets[name].constants.get("WIDTH", "") if (name := row["net"].partition("+")[0]) in nets else ""
    width = "widening factor" if unit.startswith("widening factor") else "width"
    parts = [DATASETS.get(row["dataset"], row["dataset"]), NETS.get(row["net"], row["net"]), f"{width} {row['width']}"]
    if row["partial"]:
        parts.append("partial data")
    if row["average_pool"] > 1:
        parts.append("{0}x{0} pooled".format(row["average_pool"]))
    return ", ".join(parts)


def seeds(counts: pd.Series) -> str:
    """`n = 6 seeds`, or `n = 2 to 6 seeds` where cells are missing."""
    low, high = counts.min(), counts.max()
    return f"n = {high} {'seed' if high == 1 else 'seeds'}" if low == high else f"n = {low} to {high} seeds"


def footnote(figure: Figure, *sentences: str) -> None:
    """Small print under the figure, which grows by the height it needs; three lines are the most that anyone reads."""
    text = wrap(" ".join(filter(None, sentences)), figure.get_figwidth() - 0.12, SMALL)
    lines = (text.count("\n") + 1) * SMALL * 1.25 / 72 + 0.06  # inches
    height = figure.get_figheight() + lines
    figure.set_figheight(height)
    figure.get_layout_engine().set(rect=(0, lines / height, 1, 1 - lines / height))
    figure.text(
        0.06 / figure.get_figwidth(), 0.04 / height, text, size=SMALL, color="0.25", va="bottom", linespacing=1.2
    )


def empty(text: str) -> Figure:
    """A figure that says why there is nothing to see."""
    figure = Figure(figsize=(SINGLE_WIDTH, 1.6), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.text(
        0.5, 0.5, wrap(text, 0.85 * SINGLE_WIDTH, 8), ha="center", va="center", color="0.25", transform=axes.transAxes
    )
    return figure
