"""From the table of semi-supervised machinery to seconds of one thread, side by side; and what is wanted of them."""

import pandas as pd

STEP, POOL, SEARCH = ["views", "net", "width", "batch", "mu"], ["rows", "classes"], ["points", "bought"]
KEYS = {"step": STEP, "darp": POOL, "npc": SEARCH}
WEAK, STRONG = "weak views", "strong views"
PARTS = (WEAK, STRONG, "forward and backward", "optimiser and average", "other")
SHARE = 0.2  # of a step, at most: both views
VIEWS = 10  # times as long, at least: PIL
REFRESH = 2.0  # seconds, at most: DARP at the largest pool, on two cores
LARGE, FASTER = 100, 5  # from so many points on, times as long at least: the eigenvalues of every batch


def seconds(table: pd.DataFrame, group: str) -> pd.DataFrame:
    """Processor seconds, cases x contenders or parts."""
    some = table[(table.group == group) & (table.threads == 1)]
    return some.pivot(index=KEYS[group], columns="what", values="processor_seconds")


def shares(table: pd.DataFrame) -> pd.DataFrame:
    """Of a step, cases x parts."""
    found = seconds(table, "step")
    return found[list(PARTS)].div(found["whole step"], axis=0)


def views(table: pd.DataFrame) -> pd.DataFrame:
    """Times as long as ours that PIL takes, cases x (weak views, strong views, both)."""
    found = seconds(table, "step")
    ours, theirs = found[[WEAK, STRONG]], found[[f"{WEAK} by PIL", f"{STRONG} by PIL"]].set_axis([WEAK, STRONG], axis=1)
    return (theirs / ours).assign(both=theirs.sum(axis=1) / ours.sum(axis=1))


def searches(table: pd.DataFrame) -> pd.DataFrame:
    """Times as long as ours, cases x peers."""
    found = seconds(table, "npc")
    return found.drop(columns="of_features").div(found["of_features"], axis=0)
