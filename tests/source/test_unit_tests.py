"""A unit test is no training: what it evaluates with gradients is nobody's loss of time."""

from pathlib import Path

import pytest

from hotlap.source.config import Config
from hotlap.source.lint import lint_file

TEST = """\
import torch
from torch import nn


def {name}():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    model.eval()
    first = model(torch.rand(2, 4))
    second = model(torch.rand(2, 4))
    {then}
"""


@pytest.mark.parametrize(
    ("file", "name", "then", "found"),
    [
        ("test_model.py", "test_dropout_is_off", "assert first.shape == second.shape", False),
        ("model_test.py", "test_dropout_is_off", "assert first.shape == second.shape", False),
        ("test_model.py", "test_dropout_is_off", "print(first.sum(), second.sum())", True),
        ("test_model.py", "evaluate", "assert first.shape == second.shape", True),
        ("train.py", "test_epoch", "assert first.shape == second.shape", True),
    ],
)
def test_what_pytest_collects_is_left_alone(file: str, name: str, then: str, found: bool) -> None:
    text = TEST.format(name=name, then=then)
    spots = lint_file(Path(file), text.encode(), Config(Path(), select=["eval_with_grad"]))
    assert bool(spots) == found
