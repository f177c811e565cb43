"""Random batches of images: eigenvalues against stable steps, speed of training and test error."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.theory.figures import _batches

TABLES = ("theory-npc-batches-images",)
TITLE = "Batches of images too: the largest stable step follows lambda_max, not lambda_min"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return _batches.draw(tables["theory-npc-batches-images"], "npc-batches-images")
