"""Apply a technique's moves in this process, and see what they say of themselves."""

import random
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
import torch

from hotlap.core.registry import technique
from hotlap.seam.moves import Context, applied
from hotlap.seam.roots import Roots


class Seams:
    def __init__(self):
        self.roots = Roots()
        self.holds = {}
        self.inerts = {}
        self.waiting = {}

    def held(self, name, note=""):
        self.holds.setdefault(name, []).append(note)

    def inert(self, name, reason):
        self.inerts.setdefault(name, reason)

    def waits(self, name, reason):
        self.waiting[name] = reason


@contextmanager
def on(*names, **values):
    """The techniques' moves, applied in the order of the session; yields the seams."""
    from hotlap.seam.session import _innermost_first

    seams = Seams()
    with ExitStack() as stack:
        for name in _innermost_first(names):
            for move in technique(name).moves:
                stack.enter_context(applied(move, Context(name, values, seams)))
        stack.enter_context(seams.roots.watching())
        yield seams


CLASSES = (
    torch.Tensor,
    torch.nn.Module,
    torch.optim.Optimizer,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.SGD,
    torch.optim.Adagrad,
    torch.optim.LBFGS,
    torch.utils.data.DataLoader,
    torch.utils.data._utils.fetch._MapDatasetFetcher,
    torch.amp.GradScaler,
)
MODULES = (torch, torch.autograd, torch.nn.utils, torch.nn.utils.clip_grad)


def _warm_up():
    """torch patches its own classes: `step` when the first of them is built, Module by Dynamo."""
    torch._dynamo.reset()
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
    parameter = torch.nn.Parameter(torch.zeros(1))
    for cls in CLASSES:
        if issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer:
            cls([parameter], lr=0.1)


def _snapshot():
    """Their attributes, but for what `copy` and `pickle` note on any class that they meet."""
    return {
        owner: {name: value for name, value in vars(owner).items() if name != "__slotnames__"}
        for owner in (*CLASSES, *MODULES)
    }


@pytest.fixture(autouse=True)
def torch_is_left_as_it_was():
    """Every attribute of the classes that moves touch is the same object afterwards."""
    _warm_up()
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    before = _snapshot()
    yield
    for owner, attributes in _snapshot().items():
        then = before[owner]
        changed = {k for k, v in attributes.items() if k in then and then[k] is not v}
        gone = then.keys() - attributes.keys()
        own = attributes.keys() - then.keys() if owner in CLASSES else set()
        assert not (changed | gone | own), f"{owner} was left changed: {changed | gone | own}"
