"""A net as plain data: its operations as lines of Python, and its weights, so that another framework can run the net.

A line assigns a value `v_...`, the last one `output`. It uses the input `x`, the weights `w` by name, and what the
framework has: `leaky(a, slope)`, and `conv`, `linear` and `batchnorm` of w, a module's name, an input and details.
"""

import operator
from pathlib import Path

import numpy as np
import torch
from torch import fx, nn

from bench.core.errors import UserError


def export(net: nn.Module, x: torch.Tensor, folder: Path) -> None:
    """Write the operations, the weights and the inputs to `folder`/net.npz."""
    arrays = {f"weight {name}": tensor.numpy() for name, tensor in net.state_dict().items()}
    modules, nodes = dict(net.named_modules()), fx.symbolic_trace(net).graph.nodes
    lines = (f"{'output' if node.op == 'output' else f'v_{node.name}'} = {_value(node, modules)}" for node in nodes)
    np.savez(folder / "net.npz", x=x.numpy(), program="\n".join(lines), **arrays)


def _value(node: fx.Node, modules: dict[str, nn.Module]) -> str:
    a, b, *_ = *(f"v_{argument}" for argument in node.args if isinstance(argument, fx.Node)), "", ""
    match node.op, modules.get(node.target, node.target):
        case "placeholder", _:
            return "x"
        case "output", _:
            return a
        case "call_module", nn.Conv2d() as conv:
            return f"conv(w, {node.target!r}, {a}, {conv.stride[0]}, {conv.padding[0]})"
        case "call_module", nn.Linear():
            return f"linear(w, {node.target!r}, {a})"
        case "call_module", nn.BatchNorm2d() as norm:
            return f"batchnorm(w, {node.target!r}, {a}, {norm.eps!r})"
        case "call_module", nn.LeakyReLU() | nn.ReLU() as activation:
            return f"leaky({a}, {getattr(activation, 'negative_slope', 0.0)!r})"
        case "call_module", nn.Identity():
            return a
        case "call_function", operator.add | torch.add:
            return f"{a} + {b}"
        case "call_method", "mean":
            return f"{a}.mean((2, 3))"
        case "call_method", "flatten":
            return f"{a}.reshape(len({a}), -1)"
        case _, other:
            raise UserError(f"{type(other).__name__} {node.target} has no counterpart in the peers")
