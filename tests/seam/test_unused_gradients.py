"""`unused_gradients`: what is dropped unused is found and left out, bitwise the same training."""

import re
import subprocess
import sys

import pytest

from hotlap.core.spec import Mode
from hotlap.profile.look import Bounds, look
from hotlap.seam.unused_gradients import gradient_reader
from hotlap.trial.launch import Setting

HEAD = """
import hashlib, torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
torch.manual_seed(0)
G = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
D = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
real = torch.randn(512, 32)
adam = lambda m: torch.optim.Adam(m.parameters(), lr=2e-3, betas=(0.5, 0.999))
ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
"""
TAIL = """
state = b"".join(t.numpy().tobytes() for m in (G, D) for t in m.state_dict().values())
left = [getattr(p, "gr" + "ad") for p in D.parameters()]
print("LEFT", sum(g.abs().sum().item() for g in left if g is not None))
print("STATE", hashlib.sha256(state).hexdigest())
"""
DCGAN = """
g, d = adam(G), adam(D)
for i in range(60):
    x = real[torch.randint(512, (16,))]
    D.zero_grad()
    bce(D(x), ones).backward()
    fake = G(torch.randn(16, 8))
    bce(D(fake.detach()), zeros).backward()
    d.step()
    G.zero_grad()
    bce(D(fake), ones).backward()  # unused
    g.step()
"""
WGAN = """
g, d = torch.optim.RMSprop(G.parameters(), lr=1e-3), torch.optim.RMSprop(D.parameters(), lr=1e-3)
for i in range(91):
    x = real[torch.randint(512, (16,))]
    d.zero_grad(set_to_none=False)
    (D(G(torch.randn(16, 8)).detach()).mean() - D(x).mean()).backward()
    nn.utils.clip_grad_norm_(D.parameters(), 1.0)
    d.step()
    if i % 5 == 0:
        g.zero_grad(set_to_none=False)
        (-D(G(torch.randn(16, 8))).mean()).backward()  # unused
        g.step()
"""
FROZEN = """
g = adam(G)
for i in range(40):
    g.zero_grad()
    D(G(torch.randn(16, 8))).square().mean().backward()  # unused
    g.step()
"""
TRAINER = """
class Trainer:
    def __init__(self):
        self.g, self.d = adam(G), adam(D)
    def backward(self, loss):
        loss.backward()
    def step_d(self, x):
        self.d.zero_grad()
        self.backward(bce(D(x), ones) + bce(D(G(torch.randn(16, 8)).detach()), zeros))
        self.d.step()
    def step_g(self):
        self.g.zero_grad()
        self.backward(bce(D(G(torch.randn(16, 8))), ones))  # unused
        self.g.step()
trainer = Trainer()
for i in range(60):
    trainer.step_d(real[torch.randint(512, (16,))])
    trainer.step_g()
"""
CORRECT_GAN = DCGAN.replace(
    "    G.zero_grad()\n", "    G.zero_grad()\n    D.requires_grad_(False)\n"
)
CORRECT_GAN = CORRECT_GAN.replace("    g.step()\n", "    g.step()\n    D.requires_grad_(True)\n")
CORRECT_GAN = CORRECT_GAN.replace("bce(D(fake), ones)", "bce(D(fake * 1.0), ones)")
TOGETHER = """
both = torch.optim.Adam([*G.parameters(), *D.parameters()], lr=1e-3)
for i in range(40):
    both.zero_grad()
    D(G(torch.randn(16, 8))).square().mean().backward()
    both.step()
"""
ACCUMULATED = """
both = torch.optim.SGD([*G.parameters(), *D.parameters()], lr=1e-3)
for i in range(80):
    (D(G(torch.randn(16, 8))).square().mean() / 8).backward()
    if i % 8 == 7:
        both.step()
        both.zero_grad()
"""
READER = DCGAN + "    total = sum(p.grad.norm() for p in D.parameters())\n"
LATE = """
g, d = adam(G), adam(D)
for i in range(80):
    g.zero_grad()
    if i % 8 == 0:
        d.zero_grad()
    D(G(torch.randn(16, 8))).square().mean().backward()
    g.step()
    if i % 8 == 7:
        d.step()
"""
UNFROZEN = """
g, d = adam(G), adam(D)
first = next(D.parameters())
counted = 0
for i in range(60):
    g.zero_grad(); d.zero_grad()
    D(G(torch.randn(16, 8))).square().mean().backward()
    g.step()
    if i >= 30:
        before = first.detach().clone()
        d.step()
        counted += not torch.equal(first, before)
print(f"steps with a gradient: {counted} of 30")
"""
ATTACK = """
d, x = adam(D), real[:16]
def attack(x):
    x = x.clone().requires_grad_()
    D(x).square().mean().backward()  # unused
    return (x + 0.1 * x.grad.sign()).detach()
for i in range(60):
    d.zero_grad()
    bce(D(x), ones).backward()
    d.step()
    x = attack(real[torch.randint(512, (16,))])
"""
UNUSED = {"dcgan": DCGAN, "wgan": WGAN, "frozen": FROZEN, "trainer": TRAINER, "attack": ATTACK}
USED = {"correct": CORRECT_GAN, "together": TOGETHER, "accumulated": ACCUMULATED, "late": LATE}


def some(bodies, *names):
    """All of them; those that are not named run with the slow tests."""
    return [
        pytest.param(body, id=name, marks=[] if name in names else [pytest.mark.slow])
        for name, body in bodies.items()
    ]


def write(folder, body):
    script = folder / "train.py"
    script.write_text(HEAD + body + TAIL)
    return script


def run(folder, *before):
    words = [*before, sys.executable, "train.py"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    left, state = done.stdout.splitlines()[-2:]
    return state, left


def with_technique(folder):
    (folder / "hotlap.toml").write_text("[techniques.unused_gradients]\n")
    return run(folder, sys.executable, "-m", "hotlap", "run")


@pytest.mark.parametrize("body", some(UNUSED, "attack"))
def test_the_training_is_bitwise_the_same_without_them(body, tmp_path):
    write(tmp_path, body)
    (plain, plain_left), (ours, left) = run(tmp_path), with_technique(tmp_path)
    assert ours == plain
    assert left != plain_left  # the discriminator's .grad holds nothing of the generator's step


@pytest.mark.parametrize("body", some(USED | {"reader": READER}))
def test_gradients_that_are_used_are_left_alone(body, tmp_path):
    write(tmp_path, body)
    assert with_technique(tmp_path) == run(tmp_path)


def test_what_an_optimizer_takes_up_later_is_computed_again(tmp_path):
    """Gradual unfreezing: the first step goes without, all later ones have their gradients."""
    write(tmp_path, UNFROZEN)
    (tmp_path / "hotlap.toml").write_text("[techniques.unused_gradients]\n")
    words = [sys.executable, "-m", "hotlap", "run", sys.executable, "train.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "an optimizer began to use gradients that were left out" in done.stderr
    assert "steps with a gradient: 29 of 30" in done.stdout


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def f(x):\n    x.requires_grad_()\n    return x.grad\n", 0),
        ("x = make().requires_grad_(True)\nx.grad.zero_()\n", 0),
        ("x = torch.rand(3, requires_grad=True)\nx.grad\n", 0),
        ("x = data\nx.requires_grad = True\nx.grad\n", 0),
        ("for p in model.parameters():\n    p.requires_grad_()\n    print(p.grad)\n", 3),
        ("w = model.weight\nw.requires_grad_()\nprint(w.grad)\n", 3),
        ("def f(x):\n    x.requires_grad_()\ndef g(x):\n    return x.grad\n", 4),
        ("x = make().requires_grad_()\nx.register_hook(print)\n", 2),
        ("norm = [p.grad.norm() for p in model.parameters()]\n", 1),
    ],
)
def test_gradients_of_inputs_are_no_readers_of_parameters(source, line, tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.write_text(source)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "hotlap.seam.unused_gradients.is_users_file", lambda file: file == str(script)
    )
    assert gradient_reader() == (f"train.py:{line}" if line else "")


@pytest.mark.slow
@pytest.mark.parametrize("body", [*UNUSED.values(), *USED.values()], ids=[*UNUSED, *USED])
def test_a_profile_finds_them_with_their_line(body, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = write(tmp_path, re.sub(r"range\(\d+\)", "range(9999)", body))
    setting = Setting((sys.executable, str(script)), Mode.PROFILE, seed=0,
                      scratch=tmp_path / "scratch", output=tmp_path / "log")  # fmt: skip
    payload = look(setting, Bounds(steps=60, seconds=15, dataset=False)).payload
    assert bool(payload.facts.get("unused_gradients")) is (body in UNUSED.values())
    if body in UNUSED.values():
        lines = script.read_text().splitlines()
        _, number = payload.places["unused_gradients"].rsplit(":", 1)
        shown = lines[int(number) - 1]
        assert "# unused" in shown or "loss.backward()" in shown
