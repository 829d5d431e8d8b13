"""What counts as a program that does not train."""

import sys

import pytest

from hotlap.core.spec import Mode
from hotlap.profile.look import Bounds, look
from hotlap.trial.launch import Setting

TEACHER = """
import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap
torch.manual_seed(0)
X = torch.randn(512, 8)
with torch.no_grad():
    Y = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1))(X)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
params = dict(net.named_parameters())
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def loss(p, x, y):
    return (functional_call(net, p, (x,)) - y).square().mean()
"""
OF_BATCH = """
for step in range(9999):
    g, _ = grad_and_value(loss)({k: v.detach() for k, v in params.items()}, X[:64], Y[:64])
    for k, p in params.items():
        p.grad = g[k]
    opt.step()
"""
OF_SAMPLES = OF_BATCH.replace("grad_and_value(loss)", "EACH").replace("g[k]", "g[k].mean(0)")
OF_SAMPLES = OF_SAMPLES.replace("EACH", "vmap(grad_and_value(loss), in_dims=(None, 0, 0))")
WITHOUT_AUTOGRAD = """
for step in range(9999):
    with torch.no_grad():
        for p in params.values():
            p.grad = torch.randn_like(p) * net(X[:64]).mean()
    opt.step()
"""


@pytest.mark.parametrize(
    "body",
    [
        OF_SAMPLES,
        pytest.param(OF_BATCH, marks=pytest.mark.slow),
        pytest.param(WITHOUT_AUTOGRAD, marks=pytest.mark.slow),
    ],
)
def test_a_model_that_is_called_before_a_training_without_backward(body, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TEACHER + body)
    setting = Setting((sys.executable, "train.py"), Mode.PROFILE, seed=0,
                      scratch=tmp_path / "scratch", output=tmp_path / "log")  # fmt: skip
    payload = look(setting, Bounds(steps=30, seconds=15, dataset=False)).payload
    assert not payload.facts.get("inference")
    assert "torch.func" not in str(payload.notes)
