"""From a net and points to what its layers keep of them: hooks for inputs and outputs, a backward pass, checks.

Hooks record what every layer sees, a, and which operation made what it returns, z; `backward` gives df/dz for layer
after layer, of all backward vectors at once, without any weight gradient. So z may be changed in place later on; of an
a that is, the layer gets a copy. What a net must be for this, see `bench.nets`; what it is not is said.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from bench.core.errors import UserError
from bench.kernels.backward import backward, largest, shape_of
from bench.kernels.convolution import Convolution, convolution
from bench.kernels.layers import Contracted, Kept, Layer, Linear, PReLU, Readout, Rows, Site, add_rows, evenly
from bench.kernels.norm import BatchNorm, FixedNorms
from bench.kernels.tail import ConvTail, in_tail

# Of what one layer returns for the points of one pass, on average: more leaves the caches, less is lost on overheads.
# A GPU is not full with less than some ten million numbers
PASS_BYTES, PASS_BYTES_ON_GPU = 2**21, 2**26
PASS_GRADIENTS = 4  # times as much, at most, of the gradients for all backward vectors
PASS_POINTS = 4  # at least
LIVE = 4  # gradients of one size that there are at a time, on their way back
TAIL = 0.25  # of what all layers keep of a point, a ConvTail's share at most
TILES_ON_DISK = 4  # at least, per side: a kill loses a tenth of the work
NOT_IN_PLACE = "use inplace=False, a + b for a += b"

# What makes the layer of a module; not of a subclass, whose forward pass may be another
LAYERS: dict[type[nn.Module], Callable[[Site], Layer]] = {
    nn.Linear: Linear,
    nn.Conv2d: convolution,
    nn.BatchNorm2d: BatchNorm,
    nn.PReLU: PReLU,
}

Seen = list[tuple[Tensor, GradientEdge]]  # of each layer, a (n, *a) and what made z (n, *z)


class Tangents:
    """A net's layers, and what each keeps of given points so that its share of Theta can be formed."""

    def __init__(self, net: nn.Module, x1: Tensor, x2: Tensor | None, output: str | int, layers: Sequence[str] | None):
        if not len(x1) or (x2 is not None and not len(x2)):
            raise UserError("a kernel needs at least one point on either side")
        self.net, self.modules = net, _selected(net, layers)
        _check(net)
        self.norms = FixedNorms(net)
        self.like = next(iter(net.parameters())).detach().new_empty(0)
        once = x2 is None and self._one_pass(len(x1))
        probed, f = self._probe(x1 if once else x1[:2])  # not 1, for which torch has only slow convolutions
        self.first = (probed, f) if once else None  # the pass of all points; `plan` forgets it if they are cut
        if f.dim() != 2:
            raise UserError(f"the net's output has shape {tuple(f.shape)}; kernels need (N, O)")
        self.vectors, self.rows = backward_vectors(output, f.shape[1], self.like)  # (B, O), S
        n1, n2 = len(x1), 0 if x2 is None else len(x2)
        points, pairs = n1 + n2, n1 * n2 if n2 else n1 * (n1 + 1) // 2
        self.layers: list[Layer] = []
        shared: dict[tuple, Tensor] = {}
        self.passes = 0  # flops of forward and backward passes through these layers
        for (name, module), (a, z) in zip(self.modules.items(), probed, strict=True):
            sizes = tuple(a.shape[1:]), shape_of(z)[1:]
            site = Site(name, module, *sizes, len(self.vectors), self.rows, points, pairs, self.like, shared)
            layer = layer_for(site)
            is_last = z.node is f.grad_fn
            self.layers.append(Readout(site, self.vectors) if is_last and isinstance(layer, Linear) else layer)
            if isinstance(module, nn.Linear | nn.Conv2d):
                passes = 1 + len(self.vectors) * a.requires_grad  # forward, and backwards where anything lies before
                self.passes += points * passes * 2 * module.weight.numel() * math.prod(sizes[1][1:])
        self.gradient = -(-largest(f, [z for _, z in probed]) // len(f))  # numbers of a point's, of one vector, at most
        self.readout = next((k for k, layer in enumerate(self.layers) if isinstance(layer, Readout)), None)
        if self.readout is not None and len(self.vectors) > 1:
            self._find_tail(probed, f)

    def _one_pass(self, points: int) -> bool:
        """Whether the probe takes all points and is used as their pass: where that is small, and reading the weights is
        most of its cost. Only nets whose layers are all linear tell in advance how many numbers a pass holds.
        """
        parts = [module for module in self.net.modules() if next(module.parameters(recurse=False), None) is not None]
        if not all(type(part) is nn.Linear for part in parts):
            return False
        held = points * sum(sum(part.weight.shape) for part in parts)  # inputs and outputs
        outputs = points * sum(part.out_features for part in parts) * self.like.element_size()
        return held <= sum(part.weight.numel() for part in parts) and outputs <= len(parts) * self._pass_bytes()

    def _pass_bytes(self) -> int:
        return PASS_BYTES if self.like.device.type == "cpu" else PASS_BYTES_ON_GPU

    def _probe(self, x: Tensor) -> tuple[Seen, Tensor]:
        """A forward pass that shows what to take from now on: the layout of images, channels last, the faster one for
        convolutions, unless the net cannot have it; copies of what is changed in place.
        """
        self.copies_x = True  # until it is known whether the net changes x
        self.copied: set[str] = set()  # layers that get a copy of their input, since it is changed later on
        self.layout = torch.channels_last if x.dim() == 4 else torch.preserve_format
        try:
            return self._forward(x)
        except RuntimeError as error:
            if "view size is not compatible" not in str(error):
                raise
            self.layout = torch.contiguous_format  # x.view(len(x), -1) after a convolution needs its output so
            return self._forward(x)

    def _find_tail(self, probed: Seen, f: Tensor) -> None:
        """Convolutions of which one gradient does for all outputs, unless that takes far more memory: more than twice
        the layer's and more than TAIL of all layers'.
        """
        convolutions = [k for k, layer in enumerate(self.layers) if isinstance(layer, Convolution)]
        found = in_tail([probed[k][1] for k in convolutions], probed[self.readout][0], f)
        weight = self.layers[self.readout].site.module.weight.detach()  # (O, C)
        allowed = TAIL * sum(_size(layer) for layer in self.layers)
        for k in (k for k, is_so in zip(convolutions, found, strict=True) if is_so):
            tail = ConvTail(self.layers[k].site, self.vectors @ weight)
            self.layers[k] = tail if _size(tail) <= max(2 * _size(self.layers[k]), allowed) else self.layers[k]

    def plan(self, budget: int, n: int, symmetric: bool, on_disk: bool) -> int:
        """Points per tile, the most that the budget allows; sets points per batch, and what is left for tiles."""
        size, b, s = self.like.element_size(), len(self.vectors), self.rows
        numbers = [(math.prod(layer.site.a), math.prod(layer.site.z)) for layer in self.layers]
        # What a point costs in a batch: activations; gradients on their way, in two branches; what layers use in turn
        gradients = LIVE * b * self.gradient
        in_turn = max(each.temporaries() for each in self.layers)
        batch = size * (sum(2 * a + 2 * z for a, z in numbers) + gradients + in_turn)
        kept = size * sum(_size(layer) for layer in self.layers)

        def cost(tile: int) -> int:
            sides = 1 if symmetric and tile >= n else 2
            return tile * sides * kept + on_disk * size * (tile * s) ** 2

        workspace = budget // 8
        least = (cost(1) + batch) * 8 // 7 + 1
        if budget < least:
            raise UserError(f"budget {budget:,} bytes: one point at a time needs {least:,} bytes")
        budget -= workspace
        average = max(1, b / PASS_GRADIENTS) * size * sum(z for _, z in numbers) / len(numbers)
        best = n if self.first else max(PASS_POINTS, int(self._pass_bytes() // average))
        self.batch = max(1, min(evenly(n, best), budget // 4 // batch, (budget - cost(1)) // batch))
        self.rest, self.kept, self.cost = budget - self.batch * batch, kept, cost
        for layer in self.layers:
            layer.prepare(workspace)
        fewest = min(n, TILES_ON_DISK) if on_disk else 1
        tile = next(m for m in (-(-n // k) for k in range(fewest, n + 1)) if cost(m) <= self.rest)
        if min(tile, self.batch) < n:
            self.first = None
        return tile

    def remembered(self, tile: int) -> int:
        """How many tiles of so many points to keep at a time; two are needed."""
        return max(2, int((self.rest - self.cost(tile)) // (tile * self.kept)) + 2)

    def keep(self, x: Tensor, tick: Callable[[], None]) -> list[Kept]:
        """What every layer keeps of the points x."""
        kept = [[layer.site.empty(len(x), *shape) for shape in layer.room()] for layer in self.layers]
        for start in range(0, len(x), self.batch):
            part = [[tensor[start : start + self.batch] for tensor in tensors] for tensors in kept]
            self._keep_batch(x[start : start + self.batch], part)
            tick()
        return kept

    def _keep_batch(self, x: Tensor, kept: list[Kept]) -> None:
        (seen, f), self.first = self.first or self._forward(x), None
        if not f.isfinite().all():
            raise UserError("the net's outputs are not finite; are its inputs?")
        tails, others = [], []  # what takes gradients, and of which z
        for layer, (a, z), k in zip(self.layers, seen, kept, strict=True):
            take = layer.keep(a.detach(), k)
            if take:
                (tails if isinstance(layer, ConvTail) else others).append((take, z))
        try:
            if tails:
                phi = seen[self.readout][0]  # (n, C)
                backward(phi, torch.ones_like(phi)[None], tails)
            backward(f, self.vectors[:, None].expand(-1, *f.shape), others)
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            raise UserError(f"the net changes in place what its gradients need; {NOT_IN_PLACE}") from error

    def add(self, theta: Tensor, left: list[Kept], right: list[Kept], tick: Callable[[], None]) -> None:
        """theta (N1 S, N2 S) += J J'^T, layer by layer; where right is left, only on and above the diagonal."""
        rows = [k for k, layer in enumerate(self.layers) if isinstance(layer, Rows)]
        add_rows(theta, [t for k in rows for t in left[k]], [t for k in rows for t in right[k]])
        for k, layer in enumerate(self.layers):
            if isinstance(layer, Contracted):
                layer.add(theta, left[k], right[k])
            tick()

    def _forward(self, x: Tensor) -> tuple[Seen, Tensor]:
        """What each layer saw and returned, and the outputs f (n, O)."""
        seen: dict[str, list] = {name: [] for name in self.modules}

        def record(name: str) -> Callable:
            def hook(_module, inputs, z):
                made_by = get_gradient_edge(z) if z.requires_grad else None  # now: z may be changed in place
                seen[name].append((inputs[0], made_by, inputs[0]._version))

            return hook

        hooks = [module.register_forward_hook(record(name)) for name, module in self.modules.items()]
        hooks += [self.modules[name].register_forward_pre_hook(_copy_input) for name in self.copied]
        try:
            with torch.inference_mode(False), torch.enable_grad(), self.norms:
                own = x.detach().to(self.like, memory_format=self.layout, copy=self.copies_x)
                before = own._version  # torch counts changes in place
                f = self.net(own)
        finally:
            for hook in hooks:
                hook.remove()
        self.copies_x = own._version != before
        for name, calls in seen.items():
            if len(calls) != 1:
                raise UserError(f"{name}: called {len(calls)} times in a forward pass; kernels need exactly once")
            if calls[0][1] is None:
                raise UserError(f"{name}: runs without gradients, so no row of J is known; is it within no_grad?")
        changed = {name for name, ((a, _, version),) in seen.items() if a._version != version}
        if changed & self.copied:
            raise UserError(f"{min(changed)}: its input is changed in place later on; {NOT_IN_PLACE}")
        if changed:  # in the probe, as a rule: again, with copies
            self.copied |= changed
            return self._forward(x)
        return [calls[0][:2] for calls in seen.values()], f


def _copy_input(_module: nn.Module, inputs: tuple) -> tuple:
    return inputs[0].clone(), *inputs[1:]


def _size(layer: Layer) -> int:
    """Numbers kept of a point."""
    return sum(math.prod(shape) for shape in layer.room())


def layer_for(site: Site) -> Layer:
    """The layer of a module, or a word on why there is none."""
    if type(site.module) not in LAYERS:
        known = ", ".join(module.__name__ for module in LAYERS)
        raise UserError(
            f"{site.where}: kernels do not know this layer; known are {known}. "
            "Freeze its parameters (requires_grad_(False)), or leave it out with `layers`"
        )
    return LAYERS[type(site.module)](site)


def backward_vectors(output: str | int, o: int, like: Tensor) -> tuple[Tensor, int]:
    """The vectors v of which the gradients of v . f are taken, (B, O), and the number of rows S they make."""
    unit = torch.eye(o, dtype=like.dtype, device=like.device)
    if output == "full":
        return unit, o
    if output == "trace":
        return unit, 1
    if output == "pseudo":
        return torch.full_like(unit[:1], 1 / math.sqrt(o)), 1
    k = 0 if output == "first" else output
    if not isinstance(k, int) or isinstance(k, bool) or not 0 <= k < o:
        raise UserError(f"output {output!r}: allowed are full, pseudo, first, trace or a number from 0 to {o - 1}")
    return unit[k : k + 1], 1


def _selected(net: nn.Module, layers: Sequence[str] | None) -> dict[str, nn.Module]:
    """Modules with trainable parameters of their own, by name: all, or those named, or within those named."""
    known = dict(net.named_modules())
    if layers is not None and (isinstance(layers, str) or set(layers) - set(known)):
        wrong = layers if isinstance(layers, str) else ", ".join(sorted(set(layers) - set(known)))
        raise UserError(f"layers: found {wrong!r}; allowed is a list of {', '.join(name for name in known if name)}")
    chosen, owner = {}, {}
    for name, module in known.items():
        inside = layers is None or any(name == layer or name.startswith(f"{layer}.") for layer in layers)
        for parameter in module.parameters(recurse=False):
            if inside and parameter.requires_grad:
                chosen[name] = module
                if owner.setdefault(id(parameter), name) != name:
                    raise UserError(f"{name}: shares a parameter with {owner[id(parameter)]}; kernels need one owner")
    if not chosen:
        raise UserError("no trainable parameters to take gradients for; is requires_grad off everywhere?")
    return chosen


def _check(net: nn.Module) -> None:
    """Refuse nets whose rows depend on the batch or on chance, and weights that are not numbers."""
    for name, module in net.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and (module.training or module.running_mean is None):
            raise UserError(f"{name}: batch statistics couple the points, so no row of J exists; call net.eval() first")
        if isinstance(module, nn.modules.dropout._DropoutNd | nn.RReLU) and module.training:
            raise UserError(f"{name}: {type(module).__name__} draws at random in training; call net.eval() first")
    first = next(net.parameters())
    for name, each in net.named_parameters():
        known = each.dtype in (torch.float32, torch.float64)
        if not known or (each.dtype, each.device) != (first.dtype, first.device):
            where = f"{name}: {each.dtype} on {each.device}"
            raise UserError(f"{where}; kernels need one device, and float32 or float64 throughout")
    tensors = [(name, tensor) for name, tensor in net.state_dict().items() if tensor.is_floating_point()]
    # A sum is finite if its terms are, up to overflow, and much cheaper than looking at each of them
    if not torch.stack([tensor.sum() for _, tensor in tensors]).isfinite().all():
        for name, tensor in tensors:
            if not tensor.isfinite().all():
                raise UserError(f"{name}: holds values that are not finite; did training diverge?")
