"""What an experiment is given: its setting, its sizes, and where its random numbers come from."""

from dataclasses import dataclass

import numpy as np
import torch

from bench.core.seeds import stream, torch_stream
from bench.learn.data import Data


@dataclass(frozen=True)
class Task:
    setting: str
    sizes: dict  # the experiment's section of the configuration
    seed: int
    device: torch.device
    data: Data | None = None  # of experiments on images

    def draw(self, *name: str | int) -> np.random.Generator:
        """The stream of this name, equal for every setting of a seed."""
        return stream(self.seed, "theory", *name)

    def torch_draw(self, *name: str | int) -> torch.Generator:
        return torch_stream(self.seed, "theory", *name)
