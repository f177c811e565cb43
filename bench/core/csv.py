"""Tables as files: written so that the same facts give the same bytes, read so that empty text stays empty."""

from pathlib import Path

import pandas as pd

from bench.core.errors import UserError
from bench.core.files import replacing

MIXED = {"seeds_needed": str}  # a number, or "more than 100"


def write(frame: pd.DataFrame, path: Path | str) -> None:
    """Write a CSV whose bytes depend on what the frame says, not on the order its rows came in; all or nothing."""
    keys = [column for column in frame.columns if not pd.api.types.is_float_dtype(frame[column])]
    with replacing(Path(path)) as part:
        frame.sort_values(keys, kind="stable").to_csv(part, index=False, float_format="%.10g", lineterminator="\n")


def read(path: Path | str, remedy: str = "") -> pd.DataFrame:
    """A table; cells without text are empty, not NaN."""
    if not Path(path).is_file():
        raise UserError(f"{path} is missing" + (f"; {remedy}" if remedy else ""))
    frame = pd.read_csv(path, dtype=MIXED)
    text = frame.columns.difference(frame.select_dtypes("number").columns)
    return frame.fillna(dict.fromkeys(text, ""))
