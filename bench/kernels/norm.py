"""Batch norm with fixed statistics (evaluation mode): what it adds to Theta, and a faster pass through it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bench.kernels.layers import Rows, Site


class FixedNorms:
    """Within this, each batch norm of a net is z = scale a + constant, channel by channel: one operation.

    So it is in torch on a CPU, but there it takes three times as long forwards and four times as long backwards.
    """

    def __init__(self, net: nn.Module):
        norms = (norm for norm in net.modules() if type(norm) is nn.BatchNorm2d and "forward" not in vars(norm))
        self.passes = {norm: _fixed(norm) for norm in norms}

    def __enter__(self) -> None:
        for norm, forward in self.passes.items():
            norm.forward = forward

    def __exit__(self, *_error) -> None:
        for norm in self.passes:
            vars(norm).pop("forward", None)  # the instance's; the class has its own


def _fixed(norm: nn.BatchNorm2d) -> Callable[[Tensor], Tensor]:
    """a -> (a - mean) gamma / sigma + beta = scale a + constant; trained if gamma or beta is, for gradients of z."""
    trained = any(parameter.requires_grad for parameter in norm.parameters())
    with torch.inference_mode(False), torch.no_grad():
        scale = (norm.running_var + norm.eps).rsqrt()
        scale = scale if norm.weight is None else scale * norm.weight
        constant = (0 if norm.bias is None else norm.bias) - norm.running_mean * scale
    scale, constant = scale[:, None, None], constant[:, None, None].requires_grad_(trained)

    def forward(a: Tensor) -> Tensor:
        if a.dim() != 4 or a.shape[1] != len(scale):
            return nn.BatchNorm2d.forward(norm, a)  # which says what is wrong
        return torch.addcmul(constant, a, scale)  # (n, C, H, W)

    return forward


class BatchNorm(Rows):
    """z_c = gamma_c u_c + beta_c with u = (a - mean) / sigma, sigma^2 = var + eps, fixed statistics (evaluation mode):

        d/dgamma_c = sum_t g_ct u_ct = (sum_t g_ct a_ct - mean_c sum_t g_ct) / sigma_c,    d/dbeta_c = sum_t g_ct.

    Of maps (C, T) only 2 C numbers, so the rows are kept. The second form of d/dgamma does without u, which beside a
    single backward pass is a tenth of all the work; but its two terms cancel where means are large beside deviations.
    """

    FAR = 4.0  # means, in deviations, from which on u is formed in any case: two bits of rounding

    def __init__(self, site: Site):
        super().__init__(site)
        bn = site.module
        self.mean, self.scale = bn.running_mean, (bn.running_var + bn.eps).rsqrt()  # (C,)
        self.normalise = site.backwards > 1 or bool((self.mean * self.scale).abs().max() > self.FAR)

    def room(self):
        site = self.site
        return [(site.rows, site.backwards // site.rows * site.z[0] * (self.weight + self.bias))]  # (S, M C 2)

    def keep(self, a, kept):
        j = kept[0].view(len(a), self.site.backwards, -1)  # (n, B, 2 C)
        u = (a - self.mean[:, None, None]) * self.scale[:, None, None] if self.normalise else a  # (n, C, H, W)

        def take(g):  # (B, n, C, H, W)
            c = g.shape[2]
            gamma, beta = j[..., :c], j[..., -c:]  # (n, B, C) each; the same where only one of them is trained
            sums = g.sum((3, 4)).transpose(0, 1) if self.bias or not self.normalise else None  # (n, B, C)
            if self.weight:
                gamma.copy_((g * u).sum((3, 4)).transpose(0, 1))
            if self.weight and not self.normalise:
                gamma.sub_(sums * self.mean).mul_(self.scale)
            if self.bias:
                beta.copy_(sums)

        return take
