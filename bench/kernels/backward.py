"""Backward passes of all B vectors in lockstep: each operation passes all gradients on before the next one begins.

Autograd takes one vector at a time. A layer needs its gradients for all of them at once, so those of all layers would
wait for the last pass, far from the caches. Here gradients of shape (B, n, *z) go from operation to operation along
autograd's graph, and a layer takes its own as soon as they are there. Convolutions see B n images instead of n.
Hooks that others have put on tensors are not called: gradients are those of the operations alone.
A z is given as the operation that made it (autograd's GradientEdge), which stays the same if z is changed in place.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from graphlib import TopologicalSorter

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from bench.kernels.layers import Take


def backward(f: Tensor, gradients: Tensor, takers: Sequence[tuple[Take, GradientEdge]]) -> None:
    """Of B functions of f, given their gradients with respect to f (B, *f): each take gets those with respect to its z,
    of shape (B, *z), zeros if f does not depend on z.
    """
    wanted: dict[Node, list[tuple[int, Take]]] = defaultdict(list)  # with the number of the operation's result
    for take, z in takers:
        wanted[z.node].append((z.output_nr, take))
    found: dict[Node, dict[int, Tensor]] = {f.grad_fn: {f.output_nr: gradients}}  # by operation and number of result
    with torch.no_grad():
        ways = _ways(f.grad_fn, set(wanted))
        for node, inputs in ways.items():
            given = found.pop(node)
            for number, take in wanted.get(node, ()):
                take(given[number] if number in given else _zeros(node, number, gradients))
            for k in inputs:
                source, number = node.next_functions[k]
                g, sums = _through(node, k, given), found.setdefault(source, {})
                sums[number] = sums[number] + g if number in sums else g
        for take, z in takers:
            if z.node not in ways:
                take(_zeros(z.node, z.output_nr, gradients))


def largest(f: Tensor, zs: Sequence[GradientEdge]) -> int:
    """How many numbers the largest gradient has of all that lie between f and these z, of one vector."""
    nodes = _ways(f.grad_fn, {z.node for z in zs})
    return max((math.prod(result.shape) for node in nodes for result in node._input_metadata), default=0)


def shape_of(z: GradientEdge) -> tuple[int, ...]:
    return tuple(z.node._input_metadata[z.output_nr].shape)  # the input of a backward step


def users_of(result: Node | None) -> dict[Node, list[Node]]:
    """All operations before this one, and it: by which others the result of each is used."""
    users: dict[Node, list[Node]] = {} if result is None else {result: []}
    todo = list(users)
    while todo:
        user = todo.pop()
        for node in (node for node, _ in user.next_functions if node is not None):
            todo += [] if node in users else [node]
            users.setdefault(node, []).append(user)
    return users


def _ways(result: Node | None, wanted: set[Node]) -> dict[Node, list[int]]:
    """Operations on ways from a result back to those wanted, each after all that use it, with the operands on a way."""
    ways: dict[Node, list[int]] = {}
    for node in reversed([*TopologicalSorter(users_of(result)).static_order()]):
        inputs = [k for k, (source, _) in enumerate(node.next_functions) if source in ways]
        if inputs or node in wanted:
            ways[node] = inputs
    return dict(reversed(ways.items()))


def _through(node: Node, k: int, given: dict[int, Tensor]) -> Tensor:
    """Gradients (B, *a) with respect to operand k of an operation, given those with respect to its results."""
    rule = RULES.get((node.name(), k))
    g = rule(node, given[0]) if rule and not given[0].is_complex() else None
    g = _one_by_one(node, k, given) if g is None else g
    g, shape = g.to(_operand(node, k).dtype), _operand(node, k).shape
    if g.shape[1:] != shape:  # the operand was broadcast
        g = g.sum_to_size(len(g), *[1] * (g.dim() - 1 - len(shape)), *shape).view(len(g), *shape)
    return g


def _one_by_one(node: Node, k: int, given: dict[int, Tensor]) -> Tensor:
    """By autograd's own code, vector by vector: for any operation that has no rule here."""
    like = next(iter(given.values()))
    shapes = [result.shape for result in node._input_metadata]
    gs = [given[j] if j in given else like.new_zeros(len(like), *shape) for j, shape in enumerate(shapes)]
    call, place = (node, k) if callable(node) else (node.apply, _argument(node, k))
    parts = []
    for each in zip(*gs, strict=True):
        passed = call(*each)
        part = passed[place] if isinstance(passed, tuple) else passed
        parts.append(like.new_zeros(_operand(node, k).shape) if part is None else part)
    if not parts[0].dim():
        return torch.stack(parts)
    return torch.cat(parts).unflatten(0, (len(parts), -1))  # unlike stack, with channels last where they were


def _zeros(node: Node, number: int, gradients: Tensor) -> Tensor:
    """Gradients (B, *z) with respect to a result z of an operation that has no effect."""
    z = node._input_metadata[number]
    return gradients.new_zeros(z.shape, dtype=z.dtype).expand(len(gradients), *z.shape)


def _argument(function: Node, k: int) -> int:
    """Of an autograd.Function, which argument its operand k is: arguments that are no tensors are not operands."""
    before = sum(source is not None for source, _ in function.next_functions[:k])
    return [place for place, needed in enumerate(function.needs_input_grad) if needed][before]


def _operand(node: Node, k: int):
    """Shape and dtype of operand k."""
    source, number = node.next_functions[k]
    return source._input_metadata[number]


def _convolution(node: Node, g: Tensor) -> Tensor | None:
    """The transposed convolution, of B n maps; of an input that strides do not see to its end, zeros there."""
    if node._saved_transposed or g.dim() != 5:
        return None
    weight, stride, padding = node._saved_weight, node._saved_stride, node._saved_padding
    dilation, groups = node._saved_dilation, node._saved_groups
    sizes = zip(_operand(node, 0).shape[2:], g.shape[3:], weight.shape[2:], stride, padding, dilation, strict=True)
    unseen = [a - (s * (z - 1) + d * (k - 1) + 1 - 2 * p) for a, z, k, s, p, d in sizes]
    maps = F.conv_transpose2d(g.flatten(0, 1), weight, None, stride, padding, unseen, groups, dilation)
    return maps.unflatten(0, g.shape[:2])


def _relu(node: Node, g: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(g, node._saved_result[None], 0)


def _same(node: Node, g: Tensor) -> Tensor:
    return g


def _second_summand(node: Node, g: Tensor) -> Tensor:
    return g if node._saved_alpha == 1 else g * node._saved_alpha


def _scaled(node: Node, g: Tensor) -> Tensor:
    """Of constant + value a scale, as batch norm is in `norm`."""
    return g * (node._saved_tensor2 * node._saved_value)


def _matrix(node: Node, g: Tensor) -> Tensor:
    return g @ node._saved_mat2.mT


def _scaled_matrix(node: Node, g: Tensor) -> Tensor:
    g = _matrix(node, g)
    return g if node._saved_alpha == 1 else g * node._saved_alpha


def _mean(node: Node, g: Tensor) -> Tensor | None:
    """Of maps over positions: the same at every position, channels last as all other maps are."""
    if not over_positions(node):
        return None
    (n, c, height, width), b = _operand(node, 0).shape, len(g)
    spread = (g / (height * width)).view(b, n, 1, 1, c).expand(-1, -1, height, width, -1)
    return spread.contiguous().movedim(-1, 2)


def over_positions(mean: Node | None) -> bool:
    """Of maps (n, C, H, W): dimensions 2 and 3, or -2 and -1, which autograd keeps as 2^64 - 2 and 2^64 - 1."""
    if mean is None or mean.name() != "MeanBackward1" or len(_operand(mean, 0).shape) != 4:
        return False
    return {k % 4 for k in mean._saved_dim} == {2, 3}


# By operation, as autograd calls it, and operand: what passes all gradients on at once; None is for `_one_by_one`
RULES: dict[tuple[str, int], Callable[[Node, Tensor], Tensor | None]] = {
    ("ConvolutionBackward0", 0): _convolution,
    ("ReluBackward0", 0): _relu,
    ("AddBackward0", 0): _same,
    ("AddBackward0", 1): _second_summand,
    ("AddcmulBackward0", 1): _scaled,
    ("CloneBackward0", 0): _same,
    ("AddmmBackward0", 1): _scaled_matrix,
    ("MmBackward0", 0): _matrix,
    ("MeanBackward1", 0): _mean,
}
