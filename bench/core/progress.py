"""Progress of anything longer than a few seconds: a bar on a terminal, a line per tenth of the work in a log."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm


@contextmanager
def epochs(first: int, total: int, shown: bool = True) -> Iterator[Callable[[int, float], None]]:
    """A function to call after each of the epochs first..total-1, with its number and its last loss."""
    block, on_terminal = max(1, total // 10), sys.stderr.isatty()
    hidden = not (shown and on_terminal)
    with tqdm(desc="  epochs", total=total, initial=first, mininterval=1, leave=False, disable=hidden) as bar:

        def report(epoch: int, loss: float) -> None:
            if on_terminal:
                bar.set_postfix(loss=f"{loss:.2e}", refresh=False)
                bar.update()
            elif shown and (epoch + 1) % block == 0:
                say(f"  epoch {epoch + 1}/{total}, loss {loss:.3e}")

        yield report


@contextmanager
def counter(what: str, total: int, shown: bool) -> Iterator[tuple[Callable[[], None], Callable[[int], None]]]:
    """Count steps towards a total: a function to call after each step, and one to call when more steps turn up."""
    on_terminal, tenths = sys.stderr.isatty(), 0
    with tqdm(total=total, desc=what, mininterval=1, leave=False, disable=not (shown and on_terminal)) as bar:
        steps = [0, total]  # done, to be done in all

        def tick() -> None:
            nonlocal tenths
            steps[0] += 1
            bar.update()
            if shown and not on_terminal and 10 * steps[0] // steps[1] > tenths:
                tenths = 10 * steps[0] // steps[1]
                say(f"{what}: {10 * tenths}%")

        def more(count: int) -> None:
            steps[1] += count
            bar.total = steps[1]

        yield tick, more


def say(text: str) -> None:
    """A line for the log, at once."""
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()
