# ruff: noqa: E501
"""Keyword moves: names resolved, dictionaries understood, and what is left alone, and why."""

import ast
from pathlib import Path

import pytest
from patching import patched

from hotlap.core.move import Keyword
from hotlap.core.registry import techniques
from hotlap.source.patch.draft import Draft
from hotlap.source.patch.moves import write
from hotlap.source.patch.predicates import PREDICATES

DL = "from torch.utils.data import DataLoader\n\n"

WRITTEN = [
    # aliases
    (
        "loader_workers",
        "from torch.utils.data import DataLoader as DL\n\nDL(ds, shuffle=True)\n",
        "from torch.utils.data import DataLoader as DL\n\nDL(ds, shuffle=True, num_workers=4)\n",
    ),
    (
        "loader_workers",
        "import torch.utils.data as D\n\nD.DataLoader(ds, shuffle=True)\n",
        "import torch.utils.data as D\n\nD.DataLoader(ds, shuffle=True, num_workers=4)\n",
    ),
    # an explicit default is replaced, by keyword and by position
    (
        "loader_workers",
        DL + "DataLoader(ds, num_workers=0, shuffle=True)\n",
        DL + "DataLoader(ds, num_workers=4, shuffle=True)\n",
    ),
    (
        "loader_workers",
        DL + "DataLoader(ds, 64, True, None, None, 0)\n",
        DL + "DataLoader(ds, 64, True, None, None, 4)\n",
    ),
    # dictionaries of keywords
    (
        "pinned_memory",
        DL + 'options = {"batch_size": 64}\nDataLoader(ds, **options)\n',
        DL + 'options = {"batch_size": 64}\nDataLoader(ds, pin_memory=True, **options)\n',
    ),
    (
        "pinned_memory",
        DL + 'options = {"pin_memory": False}\nDataLoader(ds, **options)\n',
        DL + 'options = {"pin_memory": True}\nDataLoader(ds, **options)\n',
    ),
    (
        "pinned_memory",
        DL + "options = dict(pin_memory=False)\nDataLoader(ds, **options)\n",
        DL + "options = dict(pin_memory=True)\nDataLoader(ds, **options)\n",
    ),
    # layouts and comments stay
    (
        "pinned_memory",
        DL + "loader = DataLoader(\n    ds,\n    batch_size=64,  # fits\n)\n",
        DL + "loader = DataLoader(\n    ds,\n    batch_size=64,  # fits\n    pin_memory=True,\n)\n",
    ),
    (
        "pinned_memory",
        DL + "loader = DataLoader(\n    ds, batch_size=64\n)  # end\n",
        DL + "loader = DataLoader(\n    ds, batch_size=64, pin_memory=True\n)  # end\n",
    ),
    (
        "pinned_memory",
        DL + "loader = DataLoader(ds,\n                    batch_size=64)\n",
        DL + "loader = DataLoader(ds,\n                    batch_size=64,\n"
        "                    pin_memory=True)\n",
    ),
    (
        "pinned_memory",
        DL + "loader = DataLoader(a_dataset_with_a_name, batch_size=arguments.batch_size, shuffle=True)\n",
        DL + "loader = DataLoader(\n    a_dataset_with_a_name, batch_size=arguments.batch_size, "
        "shuffle=True, pin_memory=True\n)\n",
    ),
    # a dataset of the file's own
    (
        "loader_workers",
        "from torch.utils.data import DataLoader, Dataset\n\n\nclass Images(Dataset):\n    pass\n\n\n"
        "DataLoader(Images())\n",
        "from torch.utils.data import DataLoader, Dataset\n\n\nclass Images(Dataset):\n    pass\n\n\n"
        "DataLoader(Images(), num_workers=4)\n",
    ),
    (
        "loader_workers",
        "from torch.utils.data import DataLoader, random_split\n\ntrain, valid = random_split(ds, [9, 1])\n"
        "DataLoader(valid)\n",
        "from torch.utils.data import DataLoader, random_split\n\ntrain, valid = random_split(ds, [9, 1])\n"
        "DataLoader(valid, num_workers=4)\n",
    ),
    (
        "fused_optimizer",
        "from torch import optim\n\nopt = optim.SGD(params=net.parameters(), lr=0.1, momentum=0.9)\n",
        "from torch import optim\n\n"
        "opt = optim.SGD(params=net.parameters(), lr=0.1, momentum=0.9, fused=True)\n",
    ),
]  # fmt: skip

LEFT = [
    ("loader_workers", DL + "DataLoader(ds)\n", "does not show whether"),
    (
        "loader_workers",
        "from torch.utils.data import DataLoader, IterableDataset\n\n\n"
        "class Stream(IterableDataset):\n    pass\n\n\nDataLoader(Stream())\n",
        "every worker would yield|each worker would yield",
    ),
    ("loader_workers", DL + "DataLoader(ds, shuffle=True, num_workers=args.workers)\n", "args.workers"),
    ("pinned_memory", DL + "DataLoader(ds, **options)\n", "not spelt out"),
    ("pinned_memory", DL + "DataLoader(*arguments)\n", "not spelt out"),
    (
        "pinned_memory",
        DL + 'options = {"batch_size": 64}\noptions["pin_memory"] = pin\nDataLoader(ds, **options)\n',
        "pin_memory is pin",
    ),
    (
        "pinned_memory",
        DL + "\nclass Loader(DataLoader):\n    pass\n\n\nLoader(ds)\n",
        "of your own",
    ),
    ("persistent_workers", DL + "DataLoader(ds, num_workers=args.workers)\n", "num_workers=args.workers"),
    (
        "fused_optimizer",
        "import torch\n\nrate = torch.tensor(0.1)\ntorch.optim.Adam(params, lr=rate)\n",
        "a tensor",
    ),
    (
        "fused_optimizer",
        "import torch\n\ntorch.nn.Embedding(9, 9, sparse=True)\ntorch.optim.Adam(params, lr=0.1)\n",
        "sparse",
    ),
    ("grads_to_none", "optimizer.zero_grad(set_to_none=keep)\n", "set_to_none is keep"),
    ("pinned_memory", "from mine import DataLoader\n\nDataLoader(ds)\n", "no call of DataLoader"),
    (
        "pinned_memory",
        "def DataLoader(ds):\n    return ds\n\n\nDataLoader(ds)\n",
        "no call of DataLoader",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "before", "after"), WRITTEN)
def test_written(name, before, after):
    ast.parse(after)
    text, done = patched(before, name)
    assert text == after
    assert done.written == [name]
    assert not done.notes
    assert patched(text, name)[0] == text


@pytest.mark.parametrize(("name", "text", "reason"), LEFT)
def test_left_alone_with_the_reason(name, text, reason):
    after, done = patched(text, name)
    assert after == text
    assert not done.written
    (note,) = done.notes
    assert any(part in note.text for part in reason.split("|")), note.text


def test_techniques_that_join_see_what_the_others_wrote():
    text, done = patched(
        DL + "DataLoader(ds, shuffle=True)\n",
        "persistent_workers",
        "prefetch_factor",
        "loader_workers",
    )
    assert "num_workers=4, persistent_workers=True, prefetch_factor=4" in text
    assert not done.notes


def test_the_table_of_positions_is_torchs():
    import inspect

    from hotlap.seam.patch import resolve
    from hotlap.source.signatures import DEFAULTS, POSITIONS

    for target, names in POSITIONS.items():
        owner, name = resolve(target)
        found = [p for p in inspect.signature(getattr(owner, name)).parameters.values()
                 if p.name != "self" and p.kind is p.POSITIONAL_OR_KEYWORD]  # fmt: skip
        assert [p.name for p in found][: len(names)] == list(names)
    for (target, name), value in DEFAULTS.items():
        owner, attribute = resolve(target)
        assert inspect.signature(getattr(owner, attribute)).parameters[name].default == value


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("cudnn_benchmark", "import torch\n\ntorch.use_deterministic_algorithms(True)\n", 3),
        ("cudnn_benchmark", "import torch\n\ntorch.backends.cudnn.benchmark = False\n", 3),
        ("cpu_threads", "import torch\n\n\ndef setup(n):\n    torch.set_num_threads(n)\n", 5),
    ],
)
def test_settings_that_the_script_makes_itself_stay(name, text, line):
    after, done = patched(text, name)
    assert after == text
    assert [note.line for note in done.notes] == [line]


def test_a_setting_goes_behind_the_imports_whatever_they_look_like():
    text = (
        '"""Doc."""\nfrom __future__ import annotations\n\nimport os\n\nos.environ["A"] = "1"\n'
        "try:\n    import torch as T\nexcept ImportError:\n    raise\n\n\ndef main():\n    pass\n"
    )
    after, _ = patched(text, "cpu_threads", "tf32")
    assert (
        '    raise\n\nT.set_num_threads(2)\nT.set_float32_matmul_precision("high")\n\n\ndef'
        in after
    )


def test_a_file_that_does_not_import_torch_gets_no_setting():
    text = "from lightning import Trainer\n\nTrainer().fit(model)\n"
    after, done = patched(text, "cpu_threads")
    assert after == text
    assert "torch.set_num_threads(2)" in done.notes[0].text


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n\nmodel = Net()\n",
        "import torch\nfrom hotlap.memory import fit\n\nmodel = Net()\n",
        "import numpy\n\nfrom lightning import Trainer\n\nTrainer().fit(model)\n",
    ],
)
def test_a_setter_of_ours_stands_below_its_import(text):
    after, _ = patched(text, "keep_heap")
    assert after.index("keep_heap\n") < after.index("keep_heap(")
    assert patched(after, "keep_heap")[0] == after


@pytest.mark.parametrize(
    "text",
    [
        'import sys\nsys.path.insert(0, "..")\nimport torch\nfrom torch import nn\n',
        'import torch\nimport warnings\nwarnings.filterwarnings("ignore")\n'
        "from torchvision import models\n",
        "import torch\n\nx = 1\nfrom hotlap.memory import fit\n",
    ],
)
def test_a_setter_of_ours_is_left_to_the_user_where_imports_come_late(text):
    after, done = patched(text, "keep_heap")
    assert after == text
    assert "`from hotlap.memory import keep_heap` and `keep_heap(" in done.notes[0].text


def test_a_predicate_that_source_cannot_answer_keeps_every_call():
    move = Keyword(("torch.utils.data.DataLoader",), "pin_memory", True, when="elsewhere:asks")
    draft = Draft(Path("train.py"), DL + "DataLoader(ds)\n")
    write(move, draft)
    assert not draft.changes
    assert "only the running program shows" in draft.remarks[0].text


def test_each_predicate_of_the_catalogue_has_its_twin_in_source():
    moves = [move for record in techniques().values() for move in record.moves]
    asked = {move.when for move in moves if isinstance(move, Keyword) and move.when}
    assert asked
    assert asked <= PREDICATES.keys()
