"""NPC Table 2: labels come to outnumber features, and then the criterion is zero for every batch."""

import pandas as pd
from matplotlib.figure import Figure

from bench.studies.npc.figures.npc_table_1 import compare

NAME = "npc-table-2"
TABLES = ("npc-published", "npc-summary")
TITLE = "Table 2: accuracy where labels come to outnumber features, as printed and here"
PANEL = "npc-table-2"


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    return compare(tables, PANEL)
