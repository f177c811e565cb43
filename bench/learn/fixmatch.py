"""Semi-supervised training: FixMatch (Sohn et al. 2020), with DARP or without; and its supervised controls.

    loss = CE(weak view of labelled images, labels)
         + lambda_u mean over ALL unlabelled images of [confidence >= tau] CE(strong view, pseudo-label)

A pseudo-label is the likeliest class of the weak view, its confidence that class's probability: by the network as it
stands, in training mode, or by DARP's refinement of what the network last said of every image of the pool. All views
of a step pass the network together, so that batch normalisation sees them mixed. The network that is evaluated is the
running average of the weights. Where codes differ, FixMatch's PyTorch code (kekmodel) is followed.
"""

import copy
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.core.errors import UserError
from bench.core.progress import epochs
from bench.core.seeds import torch_stream
from bench.learn import darp
from bench.learn.randaugment import Views
from bench.learn.sgd import SGD
from bench.learn.train import Diverged


@dataclass(frozen=True)
class Settings:
    """How to train; the defaults are FixMatch's for CIFAR-10, DARP's are its authors'."""

    MODES: ClassVar = ("fixmatch", "supervised-weak", "supervised-strong")

    mode: str = "fixmatch"  # or labelled images alone, in weak or in strong views
    steps: int = 2**20
    epoch: int = 1024  # steps between reports, looks and saves
    batch: int = 64  # B, labelled images a step; where there are fewer they are repeated
    mu: int = 7  # unlabelled images a step, as a multiple of B
    threshold: float = 0.95  # tau
    lambda_u: float = 1.0
    lr: float = 0.03  # falls as cos(7 pi k / 16 K) over K steps
    momentum: float = 0.9  # Nesterov's
    weight_decay: float = 5e-4  # 1e-3 for CIFAR-100; on kernels alone, not on biases or batch normalisation
    ema: float = 0.999
    ema_ramp: bool = False  # min(ema, (1 + k) / (10 + k)) after k steps, for short trainings
    darp: bool = False
    darp_alpha: float = 2.0
    darp_refresh: int = 10  # steps; 100 for CIFAR-100
    darp_warm_up: float = 2.0  # passes over the pool (our choice: NPC does not say), at least one and an interval
    darp_solver: str = "newton"  # or released

    def __post_init__(self):
        if self.mode not in self.MODES:
            raise UserError(f"fixmatch: found mode {self.mode!r}; allowed: {', '.join(self.MODES)}")
        if self.darp_solver not in darp.SOLVERS:
            raise UserError(f"fixmatch: found darp_solver {self.darp_solver!r}; allowed: {', '.join(darp.SOLVERS)}")
        if self.darp and self.mode != "fixmatch":
            raise UserError(f"fixmatch: mode {self.mode} has no pseudo-labels for DARP to refine; set darp: false")
        for name in ("steps", "epoch", "batch", "mu", "darp_refresh"):
            if getattr(self, name) < 1:
                hint = "; without unlabelled images choose mode supervised-weak" if name == "mu" else ""
                raise UserError(f"fixmatch: found {name} = {getattr(self, name)}; allowed: a whole number >= 1{hint}")
        for field in fields(self):
            if field.type is float and not 0 <= getattr(self, field.name) < math.inf:
                raise UserError(f"fixmatch: found {field.name} = {getattr(self, field.name):g}; allowed: a number >= 0")

    @property
    def epochs(self) -> int:
        return math.ceil(self.steps / self.epoch)

    def rate(self, step: int) -> float:
        return self.lr * math.cos(7 * math.pi * step / (16 * self.steps))

    def decay(self, step: int) -> float:
        return min(self.ema, (1 + step) / (10 + step)) if self.ema_ramp else self.ema

    def darp_start(self, pool: int) -> int:
        """The first step that uses refined labels; before a pass over the pool some of them would be chance."""
        per_step = self.batch * self.mu
        return math.ceil(max(self.darp_warm_up * pool, pool + self.darp_refresh * per_step) / per_step)


def fit(
    net: nn.Module,
    x: Tensor,
    labelled: Tensor,
    y: Tensor,
    settings: Settings,
    views: Views,
    seed: int,
    cycle: int,
    *,
    normalise: Callable[[Tensor], Tensor] = lambda x: x,
    target: Tensor | None = None,
    resume: dict | None = None,
    save: Callable[[dict], None] = lambda state: None,
    save_every: int = 10,
    at: Collection[int] = (),
    look: Callable[[nn.Module, int], None] = lambda net, epoch: None,
    shown: bool = True,
) -> nn.Module:
    """Train `net` in place on the pool `x` (N, C, H, W), pixels in [0, 1]; returns its running average, to evaluate.

    The images at `labelled` (L,) have labels `y` (L,); they are among the unlabelled ones too. `normalise` is applied
    after augmentation. `target` (O,) are the class counts of DARP, else all equal. Order and views are streams
    addressed by (cycle, pass or step). `resume`, `save`, `save_every`, `at` and `look` are those of
    `bench.learn.train.fit`, an epoch being `settings.epoch` steps; `look` is given the running average.
    """
    if not len(labelled):
        raise UserError("fixmatch: no labelled images; choose at least one")
    trained = _Training(net, x, labelled, y, settings, views, seed, cycle, normalise, target)
    first = 0
    if resume is not None:
        trained.load(resume)
        first = resume["epoch"]

    def looked(epoch: int) -> bool:
        if epoch not in at:
            return False
        trained.check(epoch)
        look(trained.average, epoch)
        return True

    if resume is None and looked(0):
        save({"epoch": 0} | trained.state())
    net.train()
    with epochs(first, settings.epochs, shown) as report:
        for epoch in range(first, settings.epochs):
            for step in range(epoch * settings.epoch, min((epoch + 1) * settings.epoch, settings.steps)):
                loss = trained.step(step)
            report(epoch, loss)
            if looked(epoch + 1) or ((epoch + 1) % save_every == 0 and epoch + 1 < settings.epochs):
                save({"epoch": epoch + 1} | trained.state())
    net.eval()
    trained.check(settings.epochs)  # the very last step can blow up unseen by any loss
    return trained.average


class _Training:
    """A training under way: what a step reads and changes."""

    def __init__(self, net, x, labelled, y, settings, views, seed, cycle, normalise, target):
        self.net, self.x, self.labelled, self.y = net, x, labelled.to(x.device), y.to(x.device)
        self.settings, self.views, self.seed, self.cycle, self.normalise = settings, views, seed, cycle, normalise
        self.average = copy.deepcopy(net).eval().requires_grad_(False)
        kernels = [p for p in net.parameters() if p.dim() > 1]
        others = [p for p in net.parameters() if p.dim() <= 1]
        groups = [{"params": kernels, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self.optimiser = SGD(groups, lr=settings.lr, momentum=settings.momentum, nesterov=settings.momentum > 0)
        self.known, self.pool = _Order(len(labelled), seed, cycle, "labelled"), _Order(len(x), seed, cycle, "pool")
        self.said = self.refined = None  # (N, O) each, with DARP: last words of the network, and refined ones
        if settings.darp:
            classes = net.head.out_features
            self.target = darp.uniform(len(x), classes) if target is None else target
            darp.check_target(self.target, len(x), classes)
            if (start := settings.darp_start(len(x))) >= settings.steps:
                raise UserError(
                    f"fixmatch: {settings.steps} steps end before DARP begins, after a pass over the pool and more, at "
                    f"step {start}; set darp: false, or more steps, or a larger batch or mu"
                )
            self.said, self.refined = x.new_zeros(len(x), classes), x.new_zeros(len(x), classes)

    def step(self, step: int) -> float:
        """One step of the optimiser and of the running average; its loss."""
        noise = torch_stream(self.seed, "augment", self.cycle, step)
        loss = (self._semi_supervised if self.settings.mode == "fixmatch" else self._supervised)(step, noise)
        if not math.isfinite(value := loss.item()):
            raise Diverged(self.cycle, step // self.settings.epoch, self.settings.lr)
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.rate(step)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        with torch.no_grad():
            for mean, now in zip(self.average.parameters(), self.net.parameters(), strict=True):
                mean.lerp_(now, 1 - self.settings.decay(step))
            for kept, now in zip(self.average.buffers(), self.net.buffers(), strict=True):
                kept.copy_(now)  # statistics of batch normalisation are running means already
        return value

    def _supervised(self, step: int, noise: torch.Generator) -> Tensor:
        known = self.known.batch(step, self.settings.batch).to(self.x.device)
        view = self.views.weak if self.settings.mode == "supervised-weak" else self.views.strong
        outputs = self._outputs(view(self.x[self.labelled[known]], noise))
        return F.cross_entropy(outputs, self.y[known])

    def _semi_supervised(self, step: int, noise: torch.Generator) -> Tensor:
        s = self.settings
        known = self.known.batch(step, s.batch).to(self.x.device)  # (B,)
        pool = self.pool.batch(step, s.mu * s.batch).to(self.x.device)  # (mu B,)
        images = [
            self.views.weak(self.x[self.labelled[known]], noise),
            self.views.weak(self.x[pool], noise),
            self.views.strong(self.x[pool], noise),
        ]
        outputs, weak, strong = self._outputs(torch.cat(images)).split([len(part) for part in images])
        confidence, pseudo = self._labels(step, pool, weak.detach().softmax(1)).max(1)  # (mu B,) each
        sure = (confidence >= s.threshold).to(outputs.dtype)
        unlabelled = (sure * F.cross_entropy(strong, pseudo, reduction="none")).mean()  # over all, not the sure ones
        return F.cross_entropy(outputs, self.y[known]) + s.lambda_u * unlabelled

    def _outputs(self, images: Tensor) -> Tensor:
        return self.net(self.normalise(images).contiguous(memory_format=torch.channels_last))

    def _labels(self, step: int, pool: Tensor, p: Tensor) -> Tensor:
        """Class probabilities of the batch `pool` (M,): the network's `p` (M, O), or DARP's."""
        s = self.settings
        if not s.darp:
            return p
        if not bool(torch.isfinite(p).all()):
            raise Diverged(self.cycle, step // s.epoch, s.lr)
        self.said[pool] = p
        start = s.darp_start(len(self.x))
        if step < start:
            return p
        if (step - start) % s.darp_refresh == 0:
            seen = self.said.sum(1) > 0
            self.refined = darp.refine(self.said, self.target, seen, alpha=s.darp_alpha, solver=s.darp_solver)
        return self.refined[pool]

    def check(self, epoch: int) -> None:
        if not all(bool(torch.isfinite(parameter).all()) for parameter in self.net.parameters()):
            raise Diverged(self.cycle, epoch - 1, self.settings.lr)

    def state(self) -> dict:
        """All that a resumed training needs: orders and views are addressed, rates are functions of the step."""
        state = {"net": self.net.state_dict(), "average": self.average.state_dict()}
        return state | {"optimiser": self.optimiser.state_dict(), "said": self.said, "refined": self.refined}

    def load(self, state: dict) -> None:
        self.net.load_state_dict(state["net"])
        self.average.load_state_dict(state["average"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.settings.darp:
            self.said, self.refined = state["said"].clone(), state["refined"].clone()


class _Order:
    """An endless sequence of indices below n: one permutation after another, each from a stream of its own."""

    def __init__(self, n: int, seed: int, cycle: int, name: str):
        self.n, self.stream = n, partial(torch_stream, seed, "batches", cycle, name)
        self.number, self.order = -1, None  # the permutation last used; most of the next batch is from it too

    def batch(self, step: int, size: int) -> Tensor:
        """Positions step * size to (step + 1) * size of the sequence; (size,)."""
        parts, start, stop = [], step * size, (step + 1) * size
        while start < stop:
            number, offset = divmod(start, self.n)
            if number != self.number:
                self.number, self.order = number, torch.randperm(self.n, generator=self.stream(number))
            parts.append(self.order[offset : offset + stop - start])
            start += len(parts[-1])
        return torch.cat(parts)
