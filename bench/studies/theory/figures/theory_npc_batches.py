"""Random batches of synthetic points: eigenvalues against stable steps, speed of training and test error."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.theory.figures import _batches

TABLES = ("theory-npc-batches",)
TITLE = "The largest stable step follows lambda_max; lambda_min decides only the last digits of training"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _batches.draw(tables["theory-npc-batches"], "npc-batches")
