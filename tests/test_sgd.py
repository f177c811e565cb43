"""SGD without torch's compiler: the same weights, and no import of it."""

import subprocess
import sys

import pytest
import torch
from conftest import REPO
from torch import nn

from bench.learn.sgd import SGD


@pytest.mark.parametrize("options", [{"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"weight_decay": 0.1}, {}])
def test_the_weights_are_torch_s_own(options):
    def trained(optimiser: type) -> list[torch.Tensor]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2))
        steps = optimiser(net.parameters(), lr=0.3, **options)
        schedule = torch.optim.lr_scheduler.OneCycleLR(steps, 0.3, total_steps=12)
        for _ in range(12):
            loss = net(torch.randn(8, 5)).square().mean()
            steps.zero_grad()
            loss.backward()
            steps.step()
            schedule.step()
        return [*net.parameters()]

    for ours, theirs in zip(trained(SGD), trained(torch.optim.SGD), strict=True):
        assert torch.equal(ours, theirs)


def test_gradients_are_on_again_after_a_step():
    net = nn.Linear(2, 1)
    net(torch.ones(1, 2)).sum().backward()
    SGD(net.parameters(), lr=0.1).step()
    assert torch.is_grad_enabled()
    assert all(parameter.requires_grad for parameter in net.parameters())


def test_training_does_not_import_the_compiler(root, tmp_path):
    code = """
import sys
from bench.__main__ import main
words = ["run", "lookahead", "digits/wrn/width-8/l2+epochs=2+cycles=2/random/seed-0", "--out", sys.argv[2]]
assert main([*words, "--root", sys.argv[1], "--save-every", "1"]) == 0
sys.exit("torch._dynamo" in sys.modules)
"""
    command = [sys.executable, "-c", code, str(root), str(tmp_path / "x.json")]
    result = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
