"""A net as plain data: the list of its operations and its weights, so that another framework can run the same net."""

import operator
from pathlib import Path

import numpy as np
import torch
from torch import fx, nn

from bench.core.errors import UserError


def export(net: nn.Module, x: torch.Tensor, folder: Path) -> None:
    """Write `program.json`'s content and the weights and inputs to `folder`/net.npz."""
    arrays = {f"weight {name}": tensor.numpy() for name, tensor in net.state_dict().items()}
    np.savez(folder / "net.npz", x=x.numpy(), program=np.array(_operations(net)), **arrays)


def _operations(net: nn.Module) -> list[str]:
    """One line per operation: result, what is done, how, operands; read by the peers' own programs."""
    modules = dict(net.named_modules())
    lines = []
    for node in fx.symbolic_trace(net).graph.nodes:
        operands = " ".join(str(argument) for argument in node.args if isinstance(argument, fx.Node))
        if node.op == "call_module":
            kind = _module(modules[node.target])
            lines.append(f"{node.name} {kind} {node.target} {operands}")
        elif node.op == "call_function" and node.target in (operator.add, torch.add):
            lines.append(f"{node.name} add - {operands}")
        elif node.op == "call_method" and node.target in ("mean", "flatten"):
            lines.append(f"{node.name} {node.target} - {operands}")
        elif node.op == "placeholder":
            lines.append(f"{node.name} input - -")
        elif node.op == "output":
            lines.append(f"output output - {node.args[0]}")
        else:
            raise UserError(f"{type(net).__name__}: {node.op} {node.target} has no counterpart in the peers")
    return lines


def _module(module: nn.Module) -> str:
    match module:
        case nn.Conv2d():
            return f"conv:{module.stride[0]}:{module.padding[0]}"
        case nn.Linear():
            return "linear"
        case nn.BatchNorm2d():
            return f"batchnorm:{module.eps!r}"
        case nn.LeakyReLU():
            return f"leaky:{module.negative_slope!r}"
        case nn.ReLU():
            return "leaky:0.0"
        case nn.Identity():
            return "identity"
    raise UserError(f"{type(module).__name__} has no counterpart in the peers")
