import ast
import textwrap
from pathlib import Path

import pytest

from hotlap.source.module import Source

HEAD = """
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

loader = DataLoader(dataset, 4)
model = nn.Linear(3, 4)
criterion = nn.CrossEntropyLoss()
"""


def kinds(code):
    """The kinds of the argument of the only `see(...)` in some code."""
    source = Source(Path("x.py"), (HEAD + textwrap.dedent(code)).encode())
    call = next(c for c in source.tree.calls if getattr(c.func, "id", "") == "see")
    return set(source.values.kinds(call.args[0]))


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("see(model)", {"model"}),
        ("see(torch.compile(model))", {"model"}),
        ("see(model.to('cuda').train())", {"model"}),
        ("see(torch.optim.SGD(model.parameters(), 0.1))", {"optimizer"}),
        ("from torch.optim import Adam as A\nopt = A(p)\nsee(opt)", {"optimizer"}),
        ("class Net(nn.Module):\n    pass\nsee(Net())", {"model"}),
        ("class A(nn.Module):\n    pass\nclass B(A):\n    pass\nsee(B())", {"model"}),
        ("class D(Dataset):\n    pass\nsee(D())", {"dataset"}),
        ("see(loader)", {"loader"}),
        ("def f():\n    return loader, model\na, b = f()\nsee(b)", {"model"}),
        ("scaler = torch.amp.GradScaler()\nsee(scaler)", {"scaler"}),
        ("see(criterion)", {"criterion"}),
    ],
)
def test_objects(code, wanted):
    assert kinds(code) == wanted


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("see(model(x))", {"tensor", "graph"}),
        ("see(criterion(model(x), y))", {"tensor", "graph"}),
        ("see(F.cross_entropy(a, b))", {"tensor", "graph"}),
        ("see(model(x).argmax(1))", {"tensor"}),
        ("see(model(x).detach().mean())", {"tensor"}),
        ("see(model(x).logits['a'] / 3)", {"tensor", "graph"}),
        ("see(model(x).detach().cpu())", {"tensor", "host"}),
        ("see(model(x).item())", set()),
        ("see(model(x).shape)", set()),
        ("see(model(x).detach().cpu().numpy())", {"array"}),
        ("see(torch.zeros(3))", {"tensor", "host"}),
        ("see(torch.zeros(3, device='cuda'))", {"tensor"}),
        ("see(torch.zeros(3).to(device))", {"tensor"}),
        ("see(torch.zeros(3).to(torch.int64))", {"tensor", "host"}),
        ("for x, y in loader:\n    see(y)", {"tensor", "host"}),
        ("for i, (x, y) in enumerate(loader):\n    see(x.cuda())", {"tensor"}),
        ("for i, (x, y) in enumerate(loader):\n    see(i)", set()),
        ("for batch in loader:\n    see(batch)", {"tensor", "host", "several"}),
        ("for b in loader:\n    b = {k: v.to(device) for k, v in b.items()}\n    see(b['x'])",
         {"tensor"}),
        ("x, y = next(iter(loader))\nsee(x)", {"tensor", "host"}),
        ("losses = model(x)\nsee(sum(v for v in losses.values()))", {"tensor", "graph"}),
        ("see(model(x) > 3)", {"tensor"}),
        ("see(model(x) is None)", set()),
        ("see('a' in model(x))", set()),
        ("see([model(x), 3])", {"tensor", "graph", "several"}),
        ("def f(z):\n    see(z)\nf(model(x))", {"tensor", "graph"}),
        ("def f():\n    return model(x).sum()\nsee(f())", {"tensor", "graph"}),
        ("def f(x: torch.Tensor):\n    see(x)", {"tensor"}),
        ("loss.backward()\nsee(loss)", {"tensor", "graph"}),
    ],
)  # fmt: skip
def test_tensors(code, wanted):
    assert kinds(code) == wanted


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("see(np.load(p))", {"array"}),
        ("see(np.load(p).astype('f4')[2:5])", {"array"}),
        ("see(np.mean(x))", set()),
        ("see(np.mean(x, axis=0))", {"array"}),
        ("see(np.load(p)[3])", set()),
        ("see([np.load(p) for p in paths])", {"arrays"}),
        ("rows = []\nrows.append(np.zeros(3))\nsee(rows)", {"arrays"}),
        ("import cv2\nsee(cv2.imread(p))", {"array"}),
        ("see(frame['a'].values)", {"array"}),
    ],
)
def test_arrays(code, wanted):
    assert kinds(code) == wanted


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("loss = model(x)\nloss = loss.item()\nsee(loss)", set()),
        ("loss = model(x)\nif a:\n    loss = 3\nsee(loss)", {"tensor", "graph"}),
        ("if a:\n    v = model(x)\nelse:\n    see(v)", set()),
        ("v = 3\nfor i in y:\n    see(v)\n    v = model(x)", {"tensor", "graph"}),
        ("v = model(x)\nfor i in y:\n    v = 3\n    see(v)", set()),
        ("total = 0\nfor i in y:\n    total += model(x)\nsee(total)", {"tensor", "graph"}),
        ("v = model(x)\nsee([v for v in range(3)][0])", set()),
        ("v = model(x)\ndef f(v):\n    see(v)", set()),
        ("v = model(x)\ndef f():\n    see(v)", {"tensor", "graph"}),
        ("class A:\n    def a(self):\n        self.v = model(x)\n"
         "    def b(self):\n        see(self.v)", {"tensor", "graph"}),
        ("class A:\n    def a(self):\n        self.v = model(x)\n        self.v = 3\n"
         "        see(self.v)", set()),
    ],
)  # fmt: skip
def test_the_definition_that_reaches_a_use_counts(code, wanted):
    assert kinds(code) == wanted


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("def f(train_loader):\n    see(train_loader)", {"loader"}),
        ("net = build(args)\nsee(net(x))", {"tensor", "graph"}),
        ("def f(optimizer):\n    see(optimizer)", {"optimizer"}),
        ("optimizer = 3\nsee(optimizer)", set()),
        ("optimizer = torch.zeros(3)\nsee(optimizer)", {"tensor", "host"}),
    ],
)
def test_a_usual_name_counts_where_nothing_else_is_known(code, wanted):
    assert kinds(code) == wanted


def test_prepared_loaders_yield_what_lies_on_the_device():
    code = "model, ready = accelerator.prepare(model, loader)\nfor x, y in loader:\n    see(x)"
    assert kinds(code) == {"tensor"}


def test_a_default_device_makes_tensors_there():
    assert kinds("torch.set_default_device('cuda')\nsee(torch.zeros(3))") == {"tensor"}


def test_a_long_chain_of_calls_takes_no_time():
    assert kinds("see(model(x)" + ".abs()" * 30 + ")") == {"tensor", "graph"}


def test_a_deep_sum_is_given_up():
    assert isinstance(kinds("see(" + "+".join(["model(x)"] * 300) + ")"), set)


def test_every_expression_may_be_asked():
    source = Source(Path("x.py"), Path(ast.__file__).read_bytes())
    for node in source.tree.nodes:
        assert isinstance(source.values.kinds(node), frozenset)
