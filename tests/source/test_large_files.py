"""Files of any size and kind: linear in the number of loops, nothing that is no file is opened."""

import os
from pathlib import Path

import pytest

from hotlap.core.errors import UsageError
from hotlap.source.config import Config
from hotlap.source.lint import BROKEN, lint
from hotlap.source.tree import Tree

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(list(range(10)))
"""
LOOP = """\
for x, y in loader:
    x = x.cuda()
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def asked_parents(loops: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many nodes are visited on the way up the tree: the unit of the lint's work."""
    visited = 0
    above = Tree.above

    def counting(tree: Tree, node: object) -> object:
        nonlocal visited
        for around in above(tree, node):  # type: ignore[arg-type]
            visited += 1
            yield around

    monkeypatch.setattr(Tree, "above", counting)
    file = folder / f"{loops}.py"
    file.write_text(HEAD + LOOP * loops)
    found = list(lint([file], Config(root=folder, hints=True)))
    monkeypatch.setattr(Tree, "above", above)
    assert len(found) >= loops
    return visited


def test_the_work_grows_with_the_number_of_loops_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (asked_parents(loops, tmp_path, monkeypatch) for loops in (20, 80))
    assert many < 5 * few


def test_lock_files_pipes_and_unreadable_files_do_not_end_the_lint(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEAD + LOOP)
    (tmp_path / ".#train.py").symlink_to("user@machine.1234:5678")  # an Emacs lock
    (tmp_path / "loop.py").symlink_to("loop.py")
    os.mkfifo(tmp_path / "pipe.py")
    found = list(lint([tmp_path], Config(root=tmp_path, hints=True)))
    assert {spot.path.name for spot in found} == {"train.py"}
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        list(lint([tmp_path / "pipe.py"], Config(root=tmp_path, hints=True)))


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("import torch\n")
    (tmp_path / "b.py").write_text(HEAD + LOOP)
    read = Path.read_bytes

    def guarded(path: Path) -> bytes:
        if path.name == "a.py":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", guarded)
    first, *others = lint([tmp_path], Config(root=tmp_path, hints=True))
    assert (first.id, first.path.name) == (BROKEN, "a.py")
    assert "Permission denied" in first.says
    assert others
