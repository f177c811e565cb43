"""The figures of thesis chapter 2, one module each; modules with an underscore draw what several share."""


def departs(scale: str) -> str:
    """Where to read how a scale departs from the paper."""
    where = "docs/results-lookahead.md" if scale == "cpu" else "lookahead-departures.csv"
    return f"Departs from the paper: see {where}."
