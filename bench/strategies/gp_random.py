"""gp-random: the Gaussian process of `gp`, its labels bought at random; the baseline that `gp` must beat."""

from bench.strategies.gp import fit, network
from bench.strategies.random import select

__all__ = ["fit", "network", "select"]
