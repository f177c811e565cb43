"""ll4al: the candidates with the largest loss, as predicted by a head trained beside the network (Yoo & Kweon 2019).

The head sees what each stage of the network puts out: mean over positions, linear to 128, ReLU; all of them together,
linear to 1. (A network without stages has one, the input of its head.) It learns the order of losses, not their size:
see `ranking_loss`. After 60% of the epochs its gradient no longer reaches the network. It is kept from cycle to cycle
with the network's weights. The published codes give the head an optimiser and a schedule of its own with equal
settings; SGD treats every weight by itself, so one over both does the same.

`loss` matters where the recipe averages squared loss over the O classes, as the thesis' does. `sum`: the thesis'
released code sums over classes for this strategy alone, and adds the ranking loss with weight 1; at one learning rate
the network then moves O times as fast as its competitors, and falls apart at rates they bear. `scaled`, the default, is
that objective divided by O: the network's loss is the recipe's, the balance of the two losses is the published one, and
what is left of a difference in accuracy is due to the method.

Not followed: the released code pools WideResNets over a window of 28 x 28, 14 x 14, 7 x 7, which leaves out the right
and the lower border of images of 32 x 32.
"""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.learn import train
from bench.strategies import Query, top

OPTIONS = {"loss": ("scaled", "sum")}
HIDDEN = 128


class WithLossHead(nn.Module):
    """A network of the suite and, beside it, the head that predicts its loss."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net
        self.hidden = nn.ModuleList(nn.Linear(_channels(stage), HIDDEN) for stage in self._stages())
        self.last = nn.Linear(HIDDEN * len(self.hidden), 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)  # (N, C, H, W) -> (N, O)

    def predicted_loss(self, x: Tensor) -> Tensor:
        return self.both(x)[1]  # (N, C, H, W) -> (N,)

    def both(self, x: Tensor, stop: bool = False) -> tuple[Tensor, Tensor]:
        """Outputs (N, O) and predicted losses (N,); with `stop`, the latter have no gradient in the network."""
        maps: list[Tensor] = []  # one per stage, (N, c, h, w) or (N, d)
        take = lambda stage, inputs, output: maps.append(inputs[0] if stage is self.net.head else output)  # noqa: E731
        hooks = [stage.register_forward_hook(take) for stage in self._stages()]
        try:
            outputs = self.net(x)
        finally:
            for hook in hooks:
                hook.remove()
        maps = [each.detach() for each in maps] if stop else maps
        pooled = [each.mean((2, 3)) if each.dim() == 4 else each for each in maps]  # (N, c) each
        hidden = [linear(each).relu() for linear, each in zip(self.hidden, pooled, strict=True)]  # (N, 128) each
        return outputs, self.last(torch.cat(hidden, 1)).squeeze(1)

    def _stages(self) -> list[nn.Module]:
        return list(getattr(self.net, "stages", [self.net.head]))


def _channels(stage: nn.Module) -> int:
    """Channels of what the head sees of a stage: those of its last convolution, or the inputs of the net's own head."""
    if isinstance(stage, nn.Linear):
        return stage.in_features
    return [layer.out_channels for layer in stage.modules() if isinstance(layer, nn.Conv2d)][-1]


def network(net: nn.Module, generator: torch.Generator, loss: str) -> WithLossHead:
    seed = int(torch.randint(2**62, (), generator=generator))  # not the network's own: its draws would come again
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return WithLossHead(net)


def fit(
    net: WithLossHead,
    x: Tensor,
    y: Tensor,
    recipe: train.Recipe,
    seed: int,
    cycle: int,
    *,
    loss: str,
    **saving: dict | Callable | int | None,
) -> None:
    name, weight = recipe.loss, 1.0
    if name == "mse" and loss == "sum":
        name = "mse-sum"
    elif name == "mse":
        weight = 1 / net.net.head.out_features

    def both_losses(net: WithLossHead, x: Tensor, y: Tensor, epoch: int) -> Tensor:
        return objective(net, x, y, name, weight, stop=5 * epoch > 3 * recipe.epochs)  # published: epoch > 120 of 200

    train.fit(net, x, y, recipe, seed, cycle, objective=both_losses, **saving)


def objective(net: WithLossHead, x: Tensor, y: Tensor, loss: str, weight: float, stop: bool) -> Tensor:
    """What a batch adds up to: the mean of the network's losses, plus `weight` times the ranking loss of the head."""
    outputs, predicted = net.both(x, stop)
    losses = sample_losses(loss, outputs, y)  # (B,)
    return losses.mean() + weight * ranking_loss(predicted, losses)


def sample_losses(name: str, outputs: Tensor, labels: Tensor) -> Tensor:
    """The loss of every image (B,), whose mean is `bench.learn.train.loss_of`."""
    if name == "cross-entropy":
        return F.cross_entropy(outputs, labels, reduction="none")
    squares = (outputs - F.one_hot(labels, outputs.shape[1])).square()  # (B, O)
    return squares.mean(1) if name == "mse" else squares.sum(1)


def ranking_loss(predicted: Tensor, losses: Tensor) -> Tensor:
    """Mean over pairs (i, B - 1 - i) of max(0, 1 - s (l^_i - l^_j)), s = 1 where l_i > l_j and -1 elsewhere.

    Only the order of the losses enters, so they get no gradient from it. Of an odd batch the one in the middle has no
    partner; a batch of one adds nothing.
    """
    pairs = len(predicted) // 2
    if pairs == 0:
        return 0 * predicted.sum()
    gap = (predicted - predicted.flip(0))[:pairs]
    larger = (losses > losses.flip(0))[:pairs]
    return (1 - torch.where(larger, gap, -gap)).clamp(min=0).mean()


def select(query: Query, size: int, stream: np.random.Generator, loss: str) -> np.ndarray:
    return top(train.predict(query.net, query.candidates, of=query.net.predicted_loss).double(), size, stream)
