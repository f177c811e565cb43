"""Every claim of NPC that was measured: its interval, the range in which it holds, its verdict."""

import pandas as pd
from matplotlib.figure import Figure

from bench.report import forest

NAME = "npc-forest"
TABLES = ("npc-claims",)
TITLE = "Every claim of NPC that was measured: interval, range in which it holds, verdict"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return forest.draw(tables["npc-claims"], "no claim of NPC has finished cells")
