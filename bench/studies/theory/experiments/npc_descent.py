"""Every step of gradient descent leaves at most 1 - eta lambda_min(K_t) of the loss, if eta is at most 1 / lambda_max.

Statement: L_{t+1} <= (1 - O(eta lambda_min(K_t))) L_t at every step, for eta = O(lambda_min(K_0)) and a wide ReLU net.
Where: NPC Theorem 1 (5); in its appendix Theorem 2 (6).
Refuted by: a step of a wide net with L_{t+1} > (1 - eta lambda_min(K_t)) L_t, the constant of O taken as 1, though eta
is at most 1 / lambda_max. With a constant kernel the factor is at most (1 - eta lambda_min)^2. The condition on eta
cannot be tested as it stands: eta has the unit of 1 / lambda. Beyond 2 / lambda_max the loss must grow at first.

How tight: `speed` is log(L_{t+1} / L_t) / (2 log(1 - eta lambda_min(K_t))), 1 if what is left of the residual lies
along the last eigenvector. `ratio` is the largest L_{t+1} / L_t / (1 - eta lambda_min(K_t)) of all steps since the row
before.
"""

import numpy as np
import torch

from bench.studies.theory.experiments import _two_layers
from bench.studies.theory.task import Task

SETTINGS = ("relu", "erf")
COLUMNS = ("m", "step", "t", "loss", "bound", "ratio", "speed", "lambda_min", "lambda_max")
TIMES = sorted({int(t) for t in np.geomspace(1, 100000, 51)})  # steps that get a row
FLOOR = 1e-20  # of the first loss: below, rounding decides
CEILING = 1e6


def parts(sizes: dict) -> list[dict]:
    return [{"m": m, "step": float(step)} for m in sizes["widths"] for step in sizes["steps"]]


def measure(task: Task, part: dict) -> list[dict]:
    m, n, d = part["m"], task.sizes["points"], task.sizes["d"]
    draw = task.draw("npc-descent", m)
    x = torch.from_numpy(draw.normal(size=(n, d))).to(task.device)
    y = torch.from_numpy(draw.normal(size=n)).to(task.device)
    net = _two_layers.draw(m, d, task.setting, task.torch_draw("npc-descent", m), task.device)
    eta = part["step"] / float(torch.linalg.eigvalsh(net.kernel(x, x))[-1])
    return descend(net, x, y, eta, task.sizes["most"])


def descend(net: _two_layers.Net, x: torch.Tensor, y: torch.Tensor, eta: float, most: int) -> list[dict]:
    """Rows at TIMES until the loss 1/2 |f - y|^2 is lost in rounding, blows up, or `most` steps are made."""
    residual = net(x) - y
    first = before = float(residual.square().sum() / 2)
    rows, worst, bound = [], 0.0, 1.0
    if not first:
        return rows
    for t in range(1, most + 1):
        eigs = torch.linalg.eigvalsh(net.kernel(x, x))
        factor = 1 - eta * float(eigs[0])
        net = net.step(net.gradient(x, residual), eta)
        residual = net(x) - y
        loss = float(residual.square().sum() / 2)
        worst, bound = max(worst, loss / before / factor), bound * factor
        over = not FLOOR * first < loss < CEILING * first
        if t in TIMES or over or t == most:
            speed = np.log(loss / before) / (2 * np.log(factor)) if loss > 0 and 0 < factor < 1 else np.nan
            row = {"t": t, "loss": loss / first, "bound": bound, "ratio": worst, "speed": float(speed)}
            rows.append(row | {"lambda_min": float(eigs[0]), "lambda_max": float(eigs[-1])})
            worst = 0.0
        if over:
            break
        before = loss
    return rows
