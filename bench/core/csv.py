"""Tables as files: written so that the same facts give the same bytes, read so that text stays text."""

from contextlib import suppress
from pathlib import Path

import pandas as pd

from bench.core.errors import UserError
from bench.core.files import replacing

# Columns that are words whatever they look like: `2.10` is a name, "None" a value, nothing is an empty text.
WORDS = {
    *("study", "scale", "claim", "where", "statement", "published", "setting", "arms", "quantity", "unit", "verdict"),
    *("seeds_needed", "data", "departures", "deviations", "note", "source", "panel", "panel_b", "a", "b", "strategy_a"),
    *("strategy_b", "better", "what", "here", "paper", "recipe", "strategy", "choice", "thesis", "code"),
}


def write(frame: pd.DataFrame, path: Path | str) -> None:
    """Write a CSV whose bytes depend on what the frame says, not on the order its rows came in; all or nothing."""
    keys = [column for column in frame.columns if not pd.api.types.is_float_dtype(frame[column])]
    with replacing(Path(path)) as part:
        frame.sort_values(keys, kind="stable").to_csv(part, index=False, float_format="%.10g", lineterminator="\n")


def read(path: Path | str) -> pd.DataFrame:
    """A table. Columns of `WORDS` are text, and so is any other that is not all numbers; a missing number is NaN."""
    if not Path(path).is_file():
        raise UserError(f"{path} is missing")
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    for column in frame.columns.difference(list(WORDS)):
        with suppress(ValueError):
            frame[column] = pd.to_numeric(frame[column].mask(frame[column] == ""))
        if set(frame[column]) <= {"True", "False"}:
            frame[column] = frame[column] == "True"
    return frame
