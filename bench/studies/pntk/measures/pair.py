"""Seconds for the kernel of one pair of inputs, eNTK against pNTK (thesis fig. 3.1): torchvision's ResNets as they are.

The record has what must be equal wherever it is made: the pNTK, and the sum of the eNTK's entries over O, which is the
same number. The seconds are in the account beside it, one for each repetition; the first of each kind is not counted.
"""

import torch

from bench.core.progress import say
from bench.core.seeds import torch_stream
from bench.kernels.empirical import gram
from bench.learn.vision import torchvision
from bench.studies.pntk import Cell

NUMBERS = 2**31  # to be kept at a time: a thousand gradients of ResNet152
SHAPE = (3, 32, 32)  # of CIFAR and SVHN; larger images would change both times alike


def measure(cell: Cell, settings: dict, data: None, device: torch.device, journal) -> dict:
    protocol = settings["protocol"]
    outputs = protocol["outputs"] or 10
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(torch_stream(cell.seed, "init").initial_seed())
        net = getattr(torchvision.models, cell.net)(num_classes=outputs).to(device).eval()
    net = net.to(getattr(torch, protocol["precision"]))
    x = torch.randn(2, *SHAPE, generator=torch_stream(cell.seed, "data")).to(next(net.parameters()))
    found = {}
    for kind, output in (("pntk", "pseudo"), ("entk", "full")):
        for repeat in range(protocol["repeats"] + 1):
            say(f"{kind} {repeat}/{protocol['repeats']}")
            with journal.clock(kind if repeat else "warm-up", repeat):
                theta = gram(net, x[:1], x[1:], output=output, budget=NUMBERS * x.element_size())
        found[kind] = theta.double().sum().item() / (1 if kind == "pntk" else outputs)
    parameters = sum(parameter.numel() for parameter in net.parameters())
    moment = {"epoch": 0, "statistics": "initial", "outputs": outputs} | found
    return {"moments": [moment], "parameters": parameters}
