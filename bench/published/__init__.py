"""Numbers printed in the papers: one CSV per table, every row with its source."""

from pathlib import Path

import pandas as pd

from bench import registry
from bench.errors import UserError

FOLDER = Path(__file__).parent


def read(name: str) -> pd.DataFrame:
    """A published table by the name the suite gives it, such as `thesis-2.1`; empty text stays empty."""
    names = sorted(path.stem for path in FOLDER.glob("*.csv"))
    if name not in names:
        raise UserError(registry.unknown("published table", name, names))
    frame = pd.read_csv(FOLDER / f"{name}.csv")
    text = frame.columns.difference(frame.select_dtypes("number").columns)
    return frame.fillna(dict.fromkeys(text, ""))
