"""Evaluation leaves no trace."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from hotlap.engine import evaluating


def test_modes_and_random_numbers_are_as_before() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(), nn.Linear(2, 2))
    model[0].eval()  # frozen by its owner
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    plain = torch.rand(2), np.random.rand(), random.random()
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    with evaluating(model):
        assert not any(m.training for m in model.modules())
        out = model(torch.rand(4, 2))
        assert out.is_inference()
        np.random.rand()
        random.random()
    assert [m.training for m in model] == [False, True, True]
    assert model.training
    assert torch.equal(torch.rand(2), plain[0])
    assert (np.random.rand(), random.random()) == plain[1:]


def test_an_exception_gets_through_and_all_is_put_back() -> None:
    model = nn.Linear(1, 1)
    with pytest.raises(KeyError), evaluating(model):
        raise KeyError
    assert model.training
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
