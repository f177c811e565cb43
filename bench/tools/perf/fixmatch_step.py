"""A FixMatch step by parts, in the training itself, and its views made image by image.

The views of the peer are made of the same images with the same draws.
"""

import itertools
import math
import time
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from bench import nets
from bench.core.errors import UserError
from bench.core.seeds import torch_stream
from bench.learn.fixmatch import Settings, _Training
from bench.learn.randaugment import OPERATIONS, Views
from bench.tools.perf import pil_views, quiet
from bench.tools.perf.semi_ratios import PARTS, STRONG, WEAK

LABELLED, POOL, CLASSES = 40, 2000, 10
VIEWS = {  # of NPC at scale cpu, and of FixMatch
    "digits": ((1, 14, 14), Views(flip=False, operations=OPERATIONS["digits"], cutout=0.3)),
    "natural": ((3, 32, 32), Views(flip=True, operations=OPERATIONS["natural"])),
}
NET, OPTIMISER, OTHER = PARTS[2:]  # other: drawing and joining batches
SAME = 2.0  # of 255: mean difference of pixels between views that are still the same


@dataclass(frozen=True)
class Step:
    views: str
    net: str
    width: int
    batch: int  # B
    mu: int
    threads: int = 1
    group: str = "step"


class Watched(_Training):
    """A training that notes how much processor time each part of a step takes."""

    def __init__(self, *given):
        super().__init__(*given)
        self.made, self.optimise, self.views = self.views, self.optimiser.step, self
        self.optimiser.step = self._optimise

    def parts(self, step: int) -> dict[str, float]:
        """A step; processor seconds of each part."""
        self.spent, self.last = dict.fromkeys(PARTS, 0.0), time.process_time()
        self.step(step)
        self._passed(OPTIMISER)
        return self.spent

    def weak(self, x: Tensor, generator: torch.Generator) -> Tensor:
        self._passed(OTHER)
        made = self.made.weak(x, generator)
        self._passed(WEAK)
        return made

    def strong(self, x: Tensor, generator: torch.Generator) -> Tensor:
        self._passed(OTHER)
        made = self.made.strong(x, generator)
        self._passed(STRONG)
        return made

    def _outputs(self, images: Tensor) -> Tensor:
        self._passed(OTHER)
        return super()._outputs(images)

    def _optimise(self) -> None:
        self._passed(NET)
        self.optimise()

    def _passed(self, part: str) -> None:
        """Everything since the last call was this part."""
        now = time.process_time()
        self.spent[part] += now - self.last
        self.last = now


def training(case: Step) -> tuple:
    """What a training is made of; its images are noise, which costs what images cost."""
    shape, views = VIEWS[case.views]
    net = nets.build(case.net, shape, CLASSES, case.width, torch_stream(0, "init")).train()
    net, x, labelled = net.to(memory_format=torch.channels_last), pictures(POOL, shape), torch.arange(LABELLED)
    settings = Settings(batch=case.batch, mu=case.mu)
    return net, x, labelled, labelled % CLASSES, settings, views, 0, 0, lambda x: x, None


def pictures(n: int, shape: tuple[int, int, int]) -> Tensor:
    """Smooth images of whole bytes in [0, 1], (n, C, H, W)."""
    coarse = torch.rand(n, shape[0], 5, 5, generator=torch_stream(0, "data"))
    smooth = torch.nn.functional.interpolate(coarse, shape[1:], mode="bilinear", align_corners=False)
    return (smooth * 255).round() / 255


def turn(case: Step) -> dict[str, dict]:
    """The whole step; its parts, those of the fastest repetition; and the views of so many images by PIL."""
    watched, numbers, laps = Watched(*training(case)), itertools.count(), []
    watched.parts(next(numbers))  # libraries load here
    whole = quiet.timed(lambda: laps.append(watched.parts(next(numbers))))
    fastest = min(laps, key=lambda spent: sum(spent.values()))
    few, many = case.batch * (1 + case.mu), case.batch * case.mu
    counts = {WEAK: few, STRONG: many, NET: few + many}
    found = {"whole step": whole | {"processor_seconds": sum(fastest.values()), "count": few}}
    for part in PARTS:
        unknown = {"seconds": math.nan, "repeats": whole["repeats"], "foreign": whole["foreign"]}
        found[part] = unknown | {"processor_seconds": fastest[part], "count": counts.get(part, math.nan)}
    for part, n in ((WEAK, few), (STRONG, many)):
        x = watched.x[:n]
        given, views = pil_views.images(x), watched.made
        ours, theirs = (views.weak, pil_views.weak) if part == WEAK else (views.strong, pil_views.strong)
        theirs = partial(theirs, views, given)
        off = 255 * float((ours(x, torch_stream(0, "views")) - theirs(torch_stream(0, "views"))).abs().mean())
        if off > SAME:
            raise UserError(f"{case}: {part} by PIL differ by {off:.1f} of 255 in the mean")
        timing = quiet.timed(lambda theirs=theirs: theirs(torch_stream(0, "views")))
        found[f"{part} by PIL"] = timing | {"count": n, "off": off}
    return found
