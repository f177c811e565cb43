"""What lambda_min and lambda_max of random batches go along with, batch by batch."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bench.report import style
from bench.studies.theory.figures import _lines

PANELS = (  # column, its name, along what
    ("step", "largest stable step", "lambda_max"),
    ("step", "", "lambda_min"),
    ("steps_common", "steps to 1% of the loss", "lambda_min"),
    ("steps_far", "steps to 1e-8 of the loss", "lambda_min"),
    ("test_error", "test error / variance", "lambda_min"),
)


def draw(rows: pd.DataFrame, experiment: str) -> Figure:
    if rows.empty:
        return style.empty(f"No finished cells of {experiment} at this scale.")
    settings = sorted(rows["setting"].unique())
    figure = Figure(figsize=(style.TEXT_WIDTH, 1.9 * len(settings) + 0.2), layout="constrained")
    looks = style.ladder(sorted(rows["seed"].unique()))
    for line, setting in zip(figure.subplots(len(settings), len(PANELS), squeeze=False), settings, strict=True):
        mine = rows[rows["setting"] == setting]
        for axes, (column, name, along) in zip(line, PANELS, strict=True):
            for seed, points in mine.groupby("seed"):
                axes.plot(
                    points[along], points[column], **looks[seed] | {"linestyle": "", "marker": ".", "markersize": 3}
                )
            if along == "lambda_max":
                most = np.linspace(mine[along].min(), mine[along].max(), 50)
                _lines.theory(axes, most, 2 / most, "")
            found = mine.groupby("seed")[[column, along]].apply(lambda seed: seed.corr("spearman").iloc[0, 1])
            axes.set_title(f"{setting}: {found.mean():+.2f}")
            axes.set(xlabel=along, ylabel=name)
    seeds = style.seeds(rows.groupby("setting")["seed"].nunique())
    about = "A mark is a batch, a shade a seed; above, the rank correlation, a mean over seeds. Dashed: 2 / lambda_max."
    style.footnote(figure, f"Scale {rows['scale'].iloc[0]}; {seeds}. {about}")
    return figure
