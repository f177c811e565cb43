"""The convolution before mean and read-out: one gradient for all outputs.

Between its output z and the features phi each channel goes its own way, through elementwise operations, fixed batch
norm, pooling, and sums or products with other maps; phi is the mean over positions, f = R phi + b. So every output's
gradient is the same map, scaled channel by channel, and the work that other convolutions do for each output is done
once. A last block whose shortcut is a convolution has two of the kind.
"""

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from bench.kernels.backward import over_positions, shape_of, users_of
from bench.kernels.convolution import Convolution, by_position
from bench.kernels.layers import SIDE, Contracted, Site, blocks

# Operations, as autograd calls them, each channel of whose result depends on that channel of its operands alone
CHANNELWISE = {
    *("ReluBackward0", "LeakyReluBackward0", "PreluKernelBackward0", "GeluBackward0", "TanhBackward0", "ErfBackward0"),
    *("AddBackward0", "MulBackward0", "AddcmulBackward0", "AvgPool2DBackward0", "MaxPool2DWithIndicesBackward0"),
    "CloneBackward0",
}


class ConvTail(Convolution, Contracted):
    """g_b,ct = w_bc mu_ct with w = v R (B, C), of backward vectors v (B, O) and the read-out's weight R (O, C), and one
    map mu_ct = dphi_c/dz_ct (C, T) for all b, so that by `Convolution`

        row c of d/dW = w_bc q_c, q_c = sum_t mu_ct p_t (D numbers),    d/db_c = w_bc r_c, r_c = sum_t mu_ct,

        Theta[ns, mr] = sum_c w_sc w_rc (q_nc . q_mc + r_nc r_mc),

    where w_sc w_rc is summed over the M backward vectors of a row. C D numbers are kept of a point.
    """

    POINTS = 64  # with as many others at a time, at most: C + S^2 numbers for each pair

    def __init__(self, site: Site, w: Tensor):
        super().__init__(site)
        rows = w.view(site.rows, -1, site.z[0])  # (S, M, C)
        self.ww = torch.einsum("smc,rmc->csr", rows, rows).flatten(1)  # (C, S^2)

    def room(self):
        c, d = self.site.z[0], self.site.module.weight[0].numel()
        return [(c, d)] * self.weight + [(c, 1)] * self.bias

    def keep(self, a, kept):
        def take(mu):  # (1, n, C, H, W)
            mu = by_position(mu[0]).transpose(1, 2)  # (n, C, T)
            if self.weight:
                torch.bmm(mu, self.patches.whole(a), out=kept[0])
            if self.bias:
                torch.sum(mu, 2, keepdim=True, out=kept[-1])

        return take

    def flops(self):
        """2 C D T per point to form q; per pair 2 C (D + 1) for inner products of q and r and 2 S^2 C for their sum."""
        (c, height, width), site = self.site.z, self.site
        d = self.weight * site.module.weight[0].numel()
        return site.points * 2 * c * d * height * width + site.pairs * 2 * c * (d + self.bias + site.rows**2)

    def add(self, theta, left, right):
        n1, n2, s = len(left[0]), len(right[0]), self.site.rows
        theta = theta.view(n1, s, n2, s)
        points = max(1, min(self.POINTS, SIDE // s))
        for i, j in blocks(n1, n2, left is right, points, points):
            pairs = [(q1[i].transpose(0, 1), q2[j].permute(1, 2, 0)) for q1, q2 in zip(left, right, strict=True)]
            qq = sum(q1 @ q2 for q1, q2 in pairs)  # (C, n, m)
            share = qq.flatten(1).T @ self.ww  # (n m, S^2)
            theta[i, :, j] += share.view(*qq.shape[1:], s, s).transpose(1, 2)


def in_tail(zs: list[GradientEdge], phi: Tensor, f: Tensor) -> list[bool]:
    """Of maps zs: does z reach f, the read-out of phi, only as phi = mean over positions, and each channel on its own?

    By autograd's graph: on all ways from z to the mean there is nothing but operations that are CHANNELWISE and have as
    many channels as z. More would mean that the single one of z was repeated.
    """
    users = users_of(f.grad_fn)
    mean, user = phi.grad_fn, f.grad_fn
    while users.get(mean) == [user] and _only_flattens(mean):
        mean, user = mean.next_functions[0][0], mean
    if users.get(mean) != [user] or not over_positions(mean):
        return [False] * len(zs)
    return [z.node in users and _alone(z.node, shape_of(z)[1], mean, users) for z in zs]


def _only_flattens(node: Node) -> bool:
    """Whether this makes features (n, C) of means (n, C, 1, 1), as after AdaptiveAvgPool2d(1), or gives these means the
    strides of channels last, as within it.
    """
    if node.name() not in ("ViewBackward0", "AsStridedBackward1"):
        return False
    n, c, *rest = node._input_metadata[0].shape
    if shape_of(GradientEdge(*node.next_functions[0])) != (n, c, 1, 1):
        return False
    if node.name() == "ViewBackward0":
        return not rest
    return rest == [1, 1] and node._saved_stride[:2] == (c, 1) and not node._saved_storage_offset


def _alone(node: Node, channels: int, mean: Node, users: dict[Node, list[Node]]) -> bool:
    """Whether each channel of this result has no effect but on its own mean."""

    def own_way(user: Node) -> bool:
        result = user._input_metadata[0]  # the input of a backward step
        return user.name() in CHANNELWISE and result.shape[1] == channels and _alone(user, channels, mean, users)

    return all(user is mean or own_way(user) for user in users[node])
