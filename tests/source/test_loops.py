import textwrap
from pathlib import Path

import pytest

from hotlap.source.checks.evaluating import evaluations, over_loader
from hotlap.source.config import Config
from hotlap.source.lint import lint_file
from hotlap.source.module import Source

STEP = "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\n"


def asked(code, question):
    """What `source.loops` answers about the only `here()` of some code."""
    source = Source(Path("x.py"), ("import torch\n" + textwrap.dedent(code)).encode())
    call = next(c for c in source.tree.calls if getattr(c.func, "id", "") == "here")
    return getattr(source.loops, question)(call)


def body(*lines):
    """A step loop with these lines in it."""
    rows = [*STEP.splitlines(), *lines]
    return "for step, (x, y) in enumerate(loader):\n" + "".join(f"    {row}\n" for row in rows)


@pytest.mark.parametrize(
    "code",
    [
        body("here()"),
        body("if x is not None:", "    here()"),
        body("for name in names:", "    here()"),
        body("if rank == 0:", "    here()"),
        body("log()") + "def log():\n    here()\n",
        body("log()") + "def log():\n    other()\ndef other():\n    here()\n",
        "def closure():\n    here()\n    loss.backward()\n",
        "class A(pl.LightningModule):\n    def training_step(self, batch, i):\n        here()\n",
        "for b in loader:\n    accelerator.backward(loss)\n    here()\n",
        "for b in loader:\n    scaler.scale(loss).backward()\n    scaler.step(opt)\n    here()\n",
        "while True:\n    for m in range(4):\n        loss.backward()\n    optimizer.step()\n"
        "    here()\n",
        "class N(torch.nn.Module):\n    def forward(self, x):\n        return here()\n",
    ],
)
def test_what_runs_at_each_step(code):
    assert asked(code, "in_step")


@pytest.mark.parametrize(
    "code",
    [
        "here()\n" + body(),
        body() + "here()\n",
        body("if step % 10 == 0:", "    here()"),
        body("if not step % 10 and x:", "    here()"),
        body("if step == 0:", "    here()"),
        body("if step + 1 == len(loader):", "    here()"),
        body("if args.verbose:", "    here()"),
        body("log_now = step % 10 == 0", "if log_now:", "    here()"),
        body("if step % 10:", "    continue", "here()"),
        body("if done:", "    here()", "    break"),
        body("try:", "    run()", "except RuntimeError:", "    here()"),
        body("if math.isnan(value):", "    here()"),
        body("raise ValueError(here())"),
        body() + "else:\n    here()\n",
        body("if step % 10 == 0:", "    log()") + "def log():\n    here()\n",
        "for x in loader:\n    model(x)\n    here()\n",
        "class F(torch.autograd.Function):\n    @staticmethod\n    def backward(ctx, g):\n"
        "        here()\n",
        "for x in here():\n    loss.backward()\n",
    ],
)
def test_what_does_not(code):
    assert not asked(code, "in_step")


def epochs(*lines, outer="for epoch in range(9):\n"):
    """A loop over epochs with these lines before its step loop."""
    inner = "".join(f"{line}\n" for line in lines) + body()
    return outer + textwrap.indent(inner, "    ")


@pytest.mark.parametrize(
    "code",
    [
        epochs("here()"),
        epochs("make()") + "def make():\n    here()\n",
        "def train():\n" + textwrap.indent("here()\n" + body(), "    ")
        + "while epoch < 9:\n    train()\n",
    ],
)  # fmt: skip
def test_what_runs_once_an_epoch(code):
    assert asked(code, "in_epoch")


@pytest.mark.parametrize(
    "code",
    [
        "here()\n" + epochs(),
        body("here()"),
        "for fold in range(5):\n    here()\n" + textwrap.indent(epochs(), "    "),
        "for x in rows:\n    here()\n",
    ],
)
def test_what_does_not_run_once_an_epoch(code):
    assert not asked(code, "in_epoch")


@pytest.mark.parametrize(
    ("code", "off"),
    [
        ("with torch.no_grad():\n    here()\n", True),
        ("with torch.inference_mode(), other:\n    here()\n", True),
        ("with torch.set_grad_enabled(phase == 'train'):\n    here()\n", True),
        ("with torch.set_grad_enabled(True):\n    here()\n", False),
        ("@torch.no_grad()\ndef f():\n    here()\n", True),
        ("@torch.inference_mode\ndef f():\n    here()\n", True),
        ("def f():\n    here()\nwith torch.no_grad():\n    f()\n", True),
        ("def f():\n    here()\nwith torch.no_grad():\n    f()\nf()\n", False),
        ("torch.set_grad_enabled(False)\nhere()\n", True),
        ("here()\ntorch.set_grad_enabled(False)\n", False),
        ("def f():\n    g()\n    here()\ndef g():\n    f()\n", False),
        ("here()\n", False),
    ],
)
def test_where_gradients_are_off(code, off):
    assert asked(code, "without_grad") is off


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("for x in val_loader:\n    model(x)\n", 1),
        ("for i, x in enumerate(val_loader):\n    out = model(x)\n", 1),
        ("for x in train_loader:\n    model(x).sum().backward()\n", 0),
        ("for x in rows:\n    model(x)\n", 0),
        (
            "class A:\n    def forward(self):\n        for x in self.loader:\n"
            "            model(x)\n",
            0,
        ),
    ],
)
def test_evaluations_are_loops_over_data_that_never_go_backward(code, count):
    source = Source(Path("x.py"), ("import torch\n" + code).encode())
    found = [call for call in evaluations(source) if over_loader(source, call)]
    assert len(found) == count


def test_a_region_knows_its_backward_and_its_loop():
    source = Source(Path("x.py"), ("import torch\n" + body()).encode())
    (region,) = source.script.steps
    assert region.loop is region.body
    assert region.backward.lineno == 4


COLLECTING = """\
import torch
losses, outputs = [], []
for x, y in loader:
    output = model(x)
    loss = torch.nn.functional.cross_entropy(output, y)
    (loss / 2).backward({keywords})
    optimizer.step()
    losses.append({kept})
"""


@pytest.mark.parametrize(
    ("kept", "keywords", "sure"),
    [
        ("loss", "", False),
        ("output", "", False),
        ("loss", "retain_graph=True", True),
        ("model(x).mean()", "", True),
    ],
)
def test_a_graph_that_a_backward_pass_went_through_is_kept_as_a_hint(
    tmp_path, kept, keywords, sure
):
    text = COLLECTING.format(kept=kept, keywords=keywords).encode()
    config = Config(tmp_path, hints=True, select=("graph_kept",))
    (spot,) = lint_file(tmp_path / "train.py", text, config)
    assert spot.hint is not sure
    assert ("freed" in spot.says) is not sure


def test_a_graph_that_was_retained_is_not_freed_by_anothers_backward_pass(tmp_path):
    """As a GAN has it: the generator's backward frees what both share, not D of the real images."""
    text = textwrap.dedent(
        """
        import torch
        kept, others = [], []
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward(retain_graph=True)
            other = criterion(model(x), y)
            other.backward()
            optimizer.step()
            kept.append(loss)
            others.append(other)
        """
    ).encode()
    config = Config(tmp_path, hints=True, select=("graph_kept",))
    found = list(lint_file(tmp_path / "train.py", text, config))
    assert [(spot.line, spot.hint) for spot in found] == [(10, False), (11, True)]
