"""A query that knows what was noted before. Apart from `Query`, on whose code the records of every run depend."""

from dataclasses import dataclass, field

from bench.strategies import Query


@dataclass
class Remembering(Query):
    earlier: list[dict] = field(default_factory=list)  # notes of the run's queries so far, oldest first
