"""Speed, measured as ratios in one run: every contender on the same machine, in a process of its own."""

from pathlib import Path


def main(what: str, peers: bool, out: Path, only: str | None) -> list[Path]:
    """Measure `what`, kernels, lookahead, pntk or ssl, and write its table and its figure; what was written."""
    from bench.report import figure
    from bench.tools.perf import (
        kernel_figure,
        kernels,
        lookahead,
        lookahead_figure,
        pntk,
        pntk_figure,
        semi,
        semi_figure,
    )  # peers have no torch

    path = out / f"{what}.csv"
    if what == "kernels":
        drawn = kernel_figure.draw(kernels.run(path, peers, only))
    elif what == "pntk":
        drawn = pntk_figure.draw(pntk.run(path, only))
    elif what == "ssl":
        drawn = semi_figure.draw(semi.run(path, only))
    else:
        drawn = lookahead_figure.draw(lookahead.run(path, only=only))
    return [path, *figure.save(drawn, out / what)]
