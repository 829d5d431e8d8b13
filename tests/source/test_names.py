import ast

import pytest

from hotlap.source.names import Names, canonical
from hotlap.source.tree import Tree


def resolved(code):
    """The dotted name of the last expression of some code."""
    tree = Tree(ast.parse(code))
    node = tree.calls[-1].func if tree.calls else tree.module.body[-1].value
    return Names(tree).of(node)


@pytest.mark.parametrize(
    ("code", "dotted"),
    [
        ("import torch\ntorch.zeros(3)", "torch.zeros"),
        ("import torch.nn as N\nN.Linear(3, 4)", "torch.nn.Linear"),
        ("import torch.nn\ntorch.nn.Linear(3, 4)", "torch.nn.Linear"),
        ("from torch.utils.data import DataLoader as DL\nDL(x)", "torch.utils.data.DataLoader"),
        ("import torch.utils.data.dataloader as d\nd.DataLoader(x)", "torch.utils.data.DataLoader"),
        ("def f():\n    from torch.optim import Adam\n    return Adam(p)", "torch.optim.Adam"),
        ("import torch\nL = torch.nn.Linear\nL(3, 4)", "torch.nn.Linear"),
        ("import torch\nnn = torch.nn\nL = nn.Linear\nL(3, 4)", "torch.nn.Linear"),
        (
            "try:\n    import torch\nexcept ImportError:\n    torch = None\ntorch.ones(3)",
            "torch.ones",
        ),
        (
            "try:\n    from torch.amp import autocast\nexcept ImportError:\n    autocast = None\n"
            "autocast()",
            "torch.amp.autocast",
        ),
        ("import numpy as np\nnp.load(x)", "numpy.load"),
        ("from .models import net\nnet(x)", ".models.net"),
        ("import torch\nclass A:\n    def f(self):\n        return torch.ones(3)", "torch.ones"),
        ("print(3)", "print"),
    ],
)
def test_a_name_stands_for_what_was_imported(code, dotted):
    assert resolved(code) == dotted


@pytest.mark.parametrize(
    "code",
    [
        "import torch\ntorch = make()\ntorch.zeros(3)",
        "import torch\ndef f(torch):\n    return torch.zeros(3)",
        "from torch.optim import Adam\nclass Adam(Adam):\n    pass\nAdam(p)",
        "try:\n    from apex import Adam\nexcept ImportError:\n    from torch.optim import Adam\n"
        "Adam(p)",
        "from torch.optim import Adam\nfor Adam in kinds:\n    Adam(p)",
        "from torch.optim import Adam\nwith x as Adam:\n    Adam(p)",
        "from torch.optim import Adam\ndef f():\n    global Adam\n    Adam = other()\nAdam(p)",
        "import torch\nmatch x:\n    case [torch, _]:\n        pass\ntorch.zeros(3)",
        "import torch\n[torch][0].zeros(3)",
    ],
)
def test_what_is_bound_to_anything_else_is_left_alone(code):
    assert resolved(code) == ""


def test_a_name_of_a_class_body_is_not_seen_in_its_methods():
    code = "import torch\nclass A:\n    torch = 3\n    def f(self):\n        return torch.ones(3)"
    assert resolved(code) == "torch.ones"


@pytest.mark.parametrize(
    ("dotted", "documented"),
    [
        ("torch.optim.adamw.AdamW", "torch.optim.AdamW"),
        ("torch.optim.lr_scheduler.StepLR", "torch.optim.lr_scheduler.StepLR"),
        ("torch.nn.modules.linear.Linear", "torch.nn.Linear"),
        ("torch.nn.parallel.data_parallel.DataParallel", "torch.nn.DataParallel"),
        ("torch.cuda.amp.grad_scaler.GradScaler", "torch.cuda.amp.GradScaler"),
        ("torchvision.models.resnet18", "torchvision.models.resnet18"),
    ],
)
def test_torch_is_named_as_it_is_documented(dotted, documented):
    assert canonical(dotted) == documented


@pytest.mark.parametrize(
    ("code", "only"),
    [
        ("import torch\ndevice = torch.device('cpu')", True),
        ("import torch\ndevice = 'cuda' if torch.cuda.is_available() else 'cpu'", False),
        ("import torch\nmodel.to('cpu')\nmodel.cuda()", False),
        ("import torch", False),
    ],
)
def test_a_module_may_name_the_cpu_alone(code, only):
    assert Names(Tree(ast.parse(code))).cpu_only is only
