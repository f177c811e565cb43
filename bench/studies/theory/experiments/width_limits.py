"""The nets of chapter 2 stay near their linearisation as they are trained, the nearer the wider: O(width^(-1/2)).

Statement: sup_t |f_t(x) - f_t^lin(x)|_2 = sup_t |Theta_t - Theta_0|_F = O(width^(-1/2)), thesis (2.9); used in (2.11)
for nets that have been trained already: linearised at the trained weights, a net is trained on with more labels.
Where: thesis 2.2, (2.9) to (2.11), of WideResNet and ResNet18 (2.4); its theorem is about fully-connected nets.
Refuted by: a supremum that falls more slowly. (2.9) writes two different suprema as equal: `unequal`, the difference
as a share of the larger, would be 0.

The suite's nets are in the standard parameterisation, where Theta grows like the width and the step, a share of
n / lambda_max, falls like it. So |Theta_t - Theta_0|_F is measured as it stands (`movement`), and relative to
|Theta_0|_F, as is meant. The step decides what narrow nets do: the kernel of a WRN grows several times over from
initialisation, so that at the share 1, half the largest stable step at first, it comes to the edge of stability.
Stages, each gradient descent on the mean squared loss of one output, f^lin taking the same steps with the kernel of the
weights it began with:
    start      from initialisation, on half of the labels
    retrain    from the weights so trained, on all labels: (2.11)
Batch normalisation is in evaluation mode, with the statistics that the images have at initialisation.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from bench.kernels.empirical import gram
from bench.nets import build, fcn, resnet18, wrn
from bench.studies.theory.task import Task

SETTINGS = ("fcn", "wrn", "resnet18")
COLUMNS = ("width", "stage", "distance", "movement", "relative", "unequal", "change", "residual")
NETS = {net.__name__.rpartition(".")[2]: net for net in (fcn, resnet18, wrn)}  # by name below; here for the digest
COLOURS = 3
TINY = 1e-300  # two suprema of 0 are equal
LOOKS = 4  # at the kernel, in a stage: the last is its end


def parts(sizes: dict) -> list[dict]:
    """A rung of the ladder of widths, of which every net has its own."""
    return [{"rung": rung} for rung in range(max(len(sizes[name]) for name in NETS))]


def measure(task: Task, part: dict) -> list[dict]:
    sizes, widths = task.sizes, task.sizes[task.setting]
    if part["rung"] >= len(widths):
        return []
    width, points = widths[part["rung"]], sizes["points"] + sizes["test"]
    draw = task.draw("width-limits", "data")  # the same images for all widths
    x = torch.from_numpy(images(draw, points, sizes["pixels"])).to(task.device)
    y = torch.from_numpy(draw.choice([-1.0, 1.0], size=sizes["points"])).to(task.device)
    generator = task.torch_draw("width-limits", "net", width)
    net = build(task.setting, tuple(x.shape[1:]), 1, width, generator).double().to(task.device)
    settle(net, x)
    order = torch.cat([torch.arange(len(y) // 2), torch.arange(len(y), points), torch.arange(len(y) // 2, len(y))])
    pace = {"steps": sizes["steps"], "share": sizes["share"]}
    rows = [{"width": width, "stage": "start"} | train(net, x[order], y[: len(y) // 2], **pace)]
    return [*rows, {"width": width, "stage": "retrain"} | train(net, x, y, **pace)]


def images(draw: np.random.Generator, points: int, pixels: int) -> np.ndarray:
    """Noise of unit variance in two octaves, half of it in blocks of 2 x 2 pixels; (N, colours, pixels, pixels)."""
    coarse = draw.normal(size=(points, COLOURS, math.ceil(pixels / 2), math.ceil(pixels / 2)))
    coarse = coarse.repeat(2, axis=2).repeat(2, axis=3)[:, :, :pixels, :pixels]
    return (coarse + draw.normal(size=(points, COLOURS, pixels, pixels))) / np.sqrt(2)


def settle(net: nn.Module, x: Tensor) -> None:
    """Batch normalisation takes the statistics of these images, and keeps them."""
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = None  # the mean of all batches seen: of one
    net.train()
    with torch.no_grad():
        net(x)
    net.eval()


def train(net: nn.Module, x: Tensor, y: Tensor, steps: int, share: float) -> dict:
    """Gradient descent of the net, in place, and of its linearisation on the first n = len(y) of x (N, C, H, W)."""
    n, weights = len(y), list(net.parameters())
    theta = gram(net, x)  # (N, N): one output
    eta = share * n / float(torch.linalg.eigvalsh(theta[:n, :n])[-1])
    with torch.no_grad():
        begin = f = linear = net(x)[:, 0]  # (N,)
    looks, distance, movement = set(np.unique(np.geomspace(1, steps, LOOKS).astype(int))), 0.0, 0.0
    for step in range(1, steps + 1):
        loss = (net(x[:n])[:, 0] - y).square().sum() / (2 * n)
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight -= eta * gradient
            f = net(x)[:, 0]
        linear = linear - eta / n * theta[:, :n] @ (linear[:n] - y)
        distance = max(distance, float((f - linear).norm()))
        if step in looks:
            movement = max(movement, float((gram(net, x) - theta).norm()))
    found = {"distance": distance, "movement": movement, "relative": movement / float(theta.norm())}
    found |= {"unequal": abs(distance - movement) / max(distance, movement, TINY), "change": float((f - begin).norm())}
    return found | {"residual": float((f[:n] - y).norm() / y.norm())}
