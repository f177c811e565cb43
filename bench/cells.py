"""A cell: one point of a study's grid = one process = one record. And which label budgets a dataset can serve."""

from dataclasses import asdict, dataclass

PATTERN = "{dataset}/{net}/width-{width}/{recipe}/{strategy}/seed-{seed}"


@dataclass(frozen=True, order=True)
class Cell:
    """One seed of one strategy, trained by one recipe with one network on one dataset."""

    dataset: str
    net: str
    width: int
    recipe: str
    strategy: str
    seed: int

    def __str__(self) -> str:
        return PATTERN.format(**asdict(self))


def oversized(protocol: dict, train_size: int) -> str | None:
    """Why a query protocol does not fit a training set of this size, or None."""
    wanted = protocol["initial"] + (protocol["cycles"] - 1) * protocol["query"]
    if wanted > train_size:
        return f"initial + (cycles - 1) * query = {wanted} labels, but there are {train_size} training images"
    if protocol["cycles"] > 1 and protocol["query"] > protocol["subset"]:
        return f"query ({protocol['query']}) is larger than subset ({protocol['subset']}), from which it is chosen"
    return None
