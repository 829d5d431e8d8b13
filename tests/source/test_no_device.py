"""What waits for a device is a hint, and none in a script that trains its own model on the CPU."""

from pathlib import Path

import pytest

from hotlap.source.config import Config
from hotlap.source.lint import lint_file

SCRIPT = """\
import torch
from torch import nn
{more}
model = nn.Linear(4, 2){moved}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for x, y in batches:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
    print(loss)
    if loss > 9:
        break
    history.append(loss.cpu())
"""
WAITING = {"item_in_step", "tensor_printed", "tensor_as_condition", "cpu_in_step"}


def waiting(text, *, hints):
    spots = lint_file(Path("train.py"), text.encode(), Config(Path(), hints=hints))
    return {spot.id: spot.hint for spot in spots if spot.id in WAITING}


def test_where_no_device_is_named_nothing_waits():
    assert not waiting(SCRIPT.format(more="", moved=""), hints=True)


def test_a_number_that_is_printed_at_every_step_costs_on_the_cpu_too():
    script = SCRIPT.format(more="", moved="").replace("print(loss)", "print(loss.item())")
    assert waiting(script, hints=True) == {"item_in_step": True}


@pytest.mark.parametrize(
    ("more", "moved"),
    [
        ("", ".cuda()"),
        ("", ".to(torch.device('mps'))"),
        ("device = 'cuda' if use_gpu else 'cpu'", ""),
        ("torch.set_default_device('cuda')", ""),
        ("from accelerate import Accelerator", ""),
        ("import lightning.pytorch as pl", ""),
        ("from my import model", ""),
    ],
)
def test_elsewhere_it_is_a_hint(more, moved):
    script = SCRIPT.format(more=more, moved=moved)
    if more.startswith("from my"):
        script = script.replace("model = nn.Linear(4, 2)\n", "")
    assert not waiting(script, hints=False)
    assert waiting(script, hints=True) == dict.fromkeys(WAITING, True)


def test_a_fragment_that_makes_no_model_may_run_anywhere():
    script = SCRIPT.format(more="", moved="").replace("model = nn.Linear(4, 2)\n", "")
    assert not waiting(script, hints=False)
    assert waiting(script, hints=True) == dict.fromkeys(WAITING, True)
