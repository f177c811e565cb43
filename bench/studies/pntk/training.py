"""A network on its way through training, looked at before it, in between and after: what every measurement shares.

Thesis 3.3 and A.6: SGD at a constant rate of 0.1, or 0.01 where that diverges, on the very points of the kernel. He's
initialisation without normalisation has lambda_max / N near 1,000, so that both rates diverge; `rate: spectrum` takes

    lr = SHARE / L,    L = lambda_max of the Hessian of the loss in the linearised model, at initialisation,

a safe rate that needs no tuning. A run that diverges at every rate it may try ends in a record that says so.
"""

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from bench import nets
from bench.core.errors import UserError
from bench.core.progress import say
from bench.core.seeds import stream, torch_stream
from bench.kernels.empirical import gram
from bench.learn.data import Data
from bench.learn.train import Diverged, Recipe, evaluate, fit
from bench.studies.pntk import Cell

SHARE = 0.5  # of 1 / L; gradient descent with momentum m is stable up to 2 (1 + m) / L
SAMPLE = 200  # points from which lambda_max / N is taken
BUDGET = 2**31  # bytes for kernels in the making; fixed, so that no record depends on what memory was free

# The Hessian of a loss with respect to the outputs of N points, at most this over N: (N O) means, (N) means, softmax
CURVATURE = {"mse": lambda o: 2 / o, "mse-sum": lambda o: 2.0, "cross-entropy": lambda o: 0.5}


class Points:
    """The training points D and the test points X of a cell, drawn uniformly by its seed."""

    def __init__(self, cell: Cell, protocol: dict, data: Data):
        for split in ("train", "test"):
            if protocol[split] > data.size(split):
                raise UserError(f"{split}: {protocol[split]} points wanted, {data.name} has {data.size(split)}")
        drawn = [
            stream(cell.seed, "data", split).permutation(data.size(split))[: protocol[split]]
            for split in ("train", "test")
        ]
        self.x, self.y = data.images("train", drawn[0]), data.labels("train", drawn[0])  # (N, C, H, W), (N,)
        self.x_test, self.y_test = data.images("test", drawn[1]), data.labels("test", drawn[1])  # (M, ...), (M,)


def build(cell: Cell, settings: dict, data: Data, device: torch.device) -> nn.Module:
    outputs = settings["protocol"]["outputs"] or data.classes
    return nets.build(cell.net, data.shape, outputs, cell.width, torch_stream(cell.seed, "init")).to(device)


Measure = Callable[[nn.Module, int, str], dict]  # net in evaluation mode, epoch, batch-norm statistics -> quantities


def follow(
    cell: Cell, settings: dict, net: nn.Module, points: Points, journal, measure: Measure, both: bool = True
) -> dict:
    """Train `net` on the points and `measure` it at the protocol's moments; the record.

    At epoch 0, batch norm has statistics 0 and 1, `initial`; with `both`, a copy that has seen the points once,
    `one-pass`, is measured too.
    """
    recipe, protocol = Recipe(**settings["recipe"]), settings["protocol"]
    state = journal.state or {"moments": [], "diverged": [], "training": None}

    def look(net: nn.Module, epoch: int, statistics: str) -> None:
        say(f"epoch {epoch}{'' if statistics == 'none' else f', batch norm {statistics}'}")
        about = {"epoch": epoch, "statistics": statistics}
        if len(points.y) and net.head.out_features > int(points.y.max()):
            with journal.clock("evaluate", epoch):
                for split, x, y in (("train", points.x, points.y), ("test", points.x_test, points.y_test)):
                    about[f"{split}_accuracy"], about[f"{split}_loss"] = evaluate(net, x, y, recipe.loss)
        state["moments"].append(about | measure(net, epoch, statistics))

    net.eval()
    norm = has_norm(net)
    starts = [("initial", net), *([("one-pass", one_pass(net, points.x))] if both else [])] if norm else [("none", net)]
    for statistics, start in starts:
        if 0 in protocol["moments"] and not any(m["statistics"] == statistics for m in state["moments"]):
            look(start, 0, statistics)
            journal.save(state)
    rates = [recipe.lr, *([recipe.fallback_lr] if recipe.fallback_lr else [])]
    if protocol["trained"] and protocol["rate"] == "spectrum":
        rates = [spectrum_rate(starts[-1][1], points.x, recipe.loss)]
    initial = copy.deepcopy(net.state_dict())
    trained = False
    while protocol["trained"] and len(state["diverged"]) < len(rates) and not trained:
        lr = rates[len(state["diverged"])]
        at = {epoch for epoch in protocol["moments"] if 0 < epoch <= recipe.epochs}

        def save(training: dict) -> None:
            state["training"] = training
            journal.save(state)

        try:
            with journal.clock("train", 0):
                fit(
                    *(net, points.x, points.y, replace(recipe, lr=lr), cell.seed, 0),
                    **{"resume": state["training"], "save": save, "save_every": journal.save_every},
                    **{"at": at, "look": lambda net, epoch: look(net, epoch, "trained" if norm else "none")},
                )
            trained = True
        except Diverged as failure:
            say(f"{failure}")
            net.load_state_dict(initial)
            state["diverged"].append({"epoch": failure.epoch, "learning_rate": failure.lr})
            state["moments"] = [moment for moment in state["moments"] if moment["epoch"] == 0]
            save(None)
    return {
        "moments": state["moments"],
        "diverged": state["diverged"],
        "learning_rate": lr if trained else None,
        "trained": trained,
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
    }


def has_norm(net: nn.Module) -> bool:
    return any(isinstance(module, nn.BatchNorm2d) for module in net.modules())


def one_pass(net: nn.Module, x: Tensor, batch: int = 500) -> nn.Module:
    """A copy of the net whose batch-norm statistics are averages over one pass of the points; its weights stay."""
    net = copy.deepcopy(net).train()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None  # a plain average over batches
    with torch.no_grad():
        for part in x.chunk(-(-len(x) // batch)):
            net(part)
    return net.eval()


def spectrum_rate(net: nn.Module, x: Tensor, loss: str) -> float:
    """SHARE / L, with lambda_max / N of the pNTK of a few points for that of the eNTK of all."""
    kernel = gram(net, x[:SAMPLE], output="pseudo", budget=BUDGET).double()
    per_point = torch.linalg.eigvalsh(kernel)[-1].item() / len(kernel)
    return SHARE / (CURVATURE[loss](net.head.out_features) * per_point)
