"""A new technique of each kind of move: applied, undone, written, explained; and its files counted.

The files are those that CONTRIBUTING.md names for the kind, and nothing else is touched.
"""

import re
import sys
from pathlib import Path

import pytest
import torch
from applying import on
from patching import patched

from hotlap.core.registry import technique
from hotlap.reporting.technique_page import page

RECORD = '''
"""A technique of a test."""

from hotlap.core.move import {kind}
from hotlap.core.technique import Numerics
from hotlap.core.technique import Group, How, Technique

technique = Technique(
    title="Made by a test", group=Group.COMPUTE, numerics=Numerics.ROUNDING, how=(How.MOVE,),
    why="why", changes="nothing", avoid="never", moves=({move},),
)
'''
TWICE = """
def twice(original):
    return lambda *args, **kwargs: 2 * original(*args, **kwargs)
"""
DOUBLED = '''
from contextlib import contextmanager
import torch
from hotlap.seam.patch import replaced

@contextmanager
def doubled(context):
    """Double what `torch.relu` returns."""
    def make(original):
        def relu(*args, **kwargs):
            context.held()
            return 2 * original(*args, **kwargs)
        return relu

    with replaced(torch, "relu", make):
        yield
'''
# By kind: the move, its other file, what shows the effect, a line of source and what it becomes.
MADE = {
    "Keyword": (
        'Keyword(("torch.nn.Dropout",), "p", 0.25)', "", lambda: torch.nn.Dropout().p,
        ("layer = torch.nn.Dropout()", "layer = torch.nn.Dropout(p=0.25)"),
    ),
    "Flag": (
        'Flag("torch.backends.cudnn.benchmark", True)', "",
        lambda: torch.backends.cudnn.benchmark,
        ("model = Net()", "torch.backends.cudnn.benchmark = True"),
    ),
    "Env": ('Env("HOTLAP_OF_A_TEST", "1")', "", None, None),
    "Call": (
        'Call("torch.set_num_threads", 3, "torch.get_num_threads")', "", torch.get_num_threads,
        ("model = Net()", "torch.set_num_threads(3)"),
    ),
    "Wrap": (
        'Wrap("tensor", "of_a_test:doubled")', DOUBLED, lambda: torch.relu(torch.ones(1)).item(),
        None,
    ),
    "Swap": (
        'Swap(("torch.nn.functional.gelu",), "of_a_test:twice", written="hotlap.kernels.gelu")',
        TWICE, lambda: torch.nn.functional.gelu(torch.ones(1)).item(),
        ("y = torch.nn.functional.gelu(x)", "y = gelu(x)"),
    ),
}  # fmt: skip


def documented() -> dict[str, int]:
    """Files that CONTRIBUTING.md counts for each kind of move."""
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\d) \|$", text, re.MULTILINE)
    return {kind: int(count) for kind, count in rows}


def test_every_kind_is_documented() -> None:
    assert set(documented()) == set(MADE)


@pytest.mark.parametrize("kind", MADE)
def test_a_new_technique_touches_the_files_that_the_guide_counts(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move, helper, effect, written = MADE[kind]
    records, library = tmp_path / "records", tmp_path / "library"
    for folder in (records, library):
        folder.mkdir()
    (records / "made_by_a_test.py").write_text(RECORD.format(kind=kind, move=move))
    if helper:
        (library / "of_a_test.py").write_text(helper)
    assert len(list(tmp_path.rglob("*.py"))) == documented()[kind]
    monkeypatch.syspath_prepend(str(library))
    monkeypatch.delitem(sys.modules, "of_a_test", raising=False)
    monkeypatch.setenv("HOTLAP_TECHNIQUES", str(records))
    monkeypatch.setenv("HOTLAP_OF_A_TEST", "1")  # as the launcher does

    before = effect() if effect else None
    with on("made_by_a_test") as seams:
        assert effect is None or effect() != before
        assert seams.holds["made_by_a_test"]
    assert effect is None or effect() == before
    assert "Made by a test" in page(technique("made_by_a_test"), [])
    if written:
        text, _ = patched(f"import torch\n\n{written[0]}\n", "made_by_a_test")
        assert written[1] in text
