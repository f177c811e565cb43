"""Strategies of which only the query times mean anything."""

from bench.core import registry


def timing_only(strategy: str) -> bool:
    """Whether a strategy only measures time, as its module says: `naive+timed=sample` buys at random."""
    component, options = registry.parse("strategies", strategy)
    return any(options[option] == value for option, value in component.constants.get("TIMING_ONLY", {}).items())
