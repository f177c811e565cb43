"""Two speeds: what tries every combination is `slow` but for a few cases, the same ones every day."""

import random
from collections.abc import Iterable, Sequence
from itertools import product

import pytest


def some(names: str, cases: Iterable, *, daily: int = 0, always: Sequence = (), indirect: Sequence[str] = ()):
    """As `pytest.mark.parametrize`: all `cases`, of which those not in `always` are slow but for `daily` of them."""
    cases, single = list(cases), "," not in names
    rest = [case for case in cases if case not in always]
    chosen = [*always, *random.Random(0).sample(rest, min(daily, len(rest)))]
    marked = [
        pytest.param(*([case] if single else case), marks=() if case in chosen else pytest.mark.slow) for case in cases
    ]
    return pytest.mark.parametrize(names, marked, indirect=list(indirect))


def every(names: str, *values: Iterable, daily: int, always: Sequence = (), indirect: Sequence[str] = ()):
    """The same for all combinations of `values`, one list for each name."""
    return some(names, product(*values), daily=daily, always=always, indirect=indirect)
