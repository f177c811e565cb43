"""Supervised training by a named recipe, resumable after any epoch, and evaluation."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.core.errors import UserError
from bench.core.progress import epochs
from bench.core.seeds import torch_stream
from bench.learn.augment import flip_crop
from bench.learn.sgd import SGD


@dataclass(frozen=True)
class Recipe:
    """How to train; the keys, their meaning and their defaults are `$defs/recipe` of the configuration's schema."""

    loss: str
    schedule: str
    cycle_momentum: bool
    lr: float
    fallback_lr: float | None
    momentum: float
    weight_decay: float
    epochs: int
    batch: int
    augment: str


class Diverged(Exception):
    """The training loss became infinite or NaN."""

    def __init__(self, cycle: int, epoch: int, lr: float):
        super().__init__(f"the loss became non-finite in cycle {cycle + 1}, epoch {epoch + 1}, at learning rate {lr:g}")
        self.cycle, self.epoch, self.lr = cycle, epoch, lr


def loss_of(name: str, outputs: Tensor, labels: Tensor) -> Tensor:
    """The recipe's loss of `outputs` (N, O) against integer `labels` (N,)."""
    if name == "cross-entropy":
        return F.cross_entropy(outputs, labels)
    targets = F.one_hot(labels, outputs.shape[1]).to(outputs.dtype)  # (N, O)
    per_class = F.mse_loss(outputs, targets)  # mean over images and classes, no 1/2 (released code)
    return per_class if name == "mse" else per_class * outputs.shape[1]


def fit(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    seed: int,
    cycle: int,
    *,
    objective: Callable[[nn.Module, Tensor, Tensor, int], Tensor] | None = None,
    resume: dict | None = None,
    save: Callable[[dict], None] = lambda state: None,
    save_every: int = 10,
    at: Collection[int] = (),
    look: Callable[[nn.Module, int], None] = lambda net, epoch: None,
    shown: bool = True,
) -> None:
    """Train `net` in place on images `x` (N, C, H, W) and labels `y` (N,).

    Optimiser and schedule are new in every cycle; batches and augmentation of an epoch come from streams addressed by
    (cycle, epoch). `objective(net, images, labels, epoch)` takes the place of the recipe's loss. `save` gets all
    that is needed to continue after every `save_every` epochs; handed back as `resume`, it gives the same weights,
    bit for bit, as training without a break. Progress is `shown` or not.

    `look(net, epoch)` is called with the network in evaluation mode after each number of epochs in `at`: 0 is before
    training, `recipe.epochs` after it. `save` follows each look, and a look that was saved is not repeated.
    """
    optimiser = SGD(net.parameters(), lr=recipe.lr, momentum=recipe.momentum, weight_decay=recipe.weight_decay)
    schedule = _schedule(optimiser, recipe, steps=recipe.epochs * math.ceil(len(x) / recipe.batch))
    objective = objective or (lambda net, x, y, epoch: loss_of(recipe.loss, net(x), y))
    first = 0
    if resume is not None:
        net.load_state_dict(resume["net"])
        optimiser.load_state_dict(resume["optimiser"])
        schedule.load_state_dict(resume["schedule"])
        first = resume["epoch"]

    def looked(epoch: int) -> bool:
        if epoch not in at:
            return False
        if not _finite(net):
            raise Diverged(cycle, epoch - 1, recipe.lr)
        net.eval()
        look(net, epoch)
        net.train()
        return True

    def saved(epoch: int) -> None:
        state = {"net": net.state_dict(), "optimiser": optimiser.state_dict(), "schedule": schedule.state_dict()}
        save({"epoch": epoch} | state)

    if resume is None and looked(0):
        saved(0)
    net.train()
    with epochs(first, recipe.epochs, shown) as report:
        for epoch in range(first, recipe.epochs):
            order = torch.randperm(len(x), generator=torch_stream(seed, "batches", cycle, epoch)).to(x.device)
            noise = torch_stream(seed, "augment", cycle, epoch)
            for batch in order.split(recipe.batch):
                images = flip_crop(x[batch], noise) if recipe.augment == "flip-crop" else x[batch]
                try:
                    loss = objective(net, images, y[batch], epoch)
                except ValueError as error:  # batch normalisation of one image that is down to one pixel
                    if len(images) > 1:
                        raise
                    raise UserError(f"a batch of 1: {error}; choose a recipe batch that leaves no rest of 1") from None
                if not math.isfinite(value := loss.item()):
                    raise Diverged(cycle, epoch, recipe.lr)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
            report(epoch, value)
            if looked(epoch + 1) or ((epoch + 1) % save_every == 0 and epoch + 1 < recipe.epochs):
                saved(epoch + 1)
    net.eval()
    if not _finite(net):
        raise Diverged(cycle, recipe.epochs - 1, recipe.lr)  # the very last step can blow up unseen by any loss


def _finite(net: nn.Module) -> bool:
    return all(bool(torch.isfinite(parameter).all()) for parameter in net.parameters())


def _schedule(optimiser: torch.optim.Optimizer, recipe: Recipe, steps: int) -> torch.optim.lr_scheduler.LRScheduler:
    schedules = torch.optim.lr_scheduler
    if recipe.schedule == "onecycle":
        return schedules.OneCycleLR(
            optimiser, max_lr=recipe.lr, total_steps=steps, cycle_momentum=recipe.cycle_momentum
        )
    if recipe.schedule == "cosine":
        return schedules.CosineAnnealingLR(optimiser, T_max=steps)
    return schedules.ConstantLR(optimiser, factor=1.0, total_iters=0)


@torch.no_grad()
def predict(net: nn.Module, x: Tensor, batch: int = 500, of: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Outputs (N, O) of the network in evaluation mode, or what its method `of` gives, such as its features (N, d)."""
    net.eval()
    return torch.cat([(of or net)(part) for part in x.split(batch)])


def evaluate(net: nn.Module, x: Tensor, y: Tensor, loss: str) -> tuple[float, float]:
    """Accuracy and mean loss on images `x` with labels `y`."""
    outputs = predict(net, x)  # (N, O)
    accuracy = (outputs.argmax(1) == y).double().mean()
    return accuracy.item(), loss_of(loss, outputs.double(), y).item()
