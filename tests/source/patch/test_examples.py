"""Every technique's examples are what the patcher writes, and what it leaves alone."""

import ast
import re
from pathlib import Path

import pytest
from patching import patched

from hotlap.core.move import Env, Wrap
from hotlap.core.registry import techniques
from hotlap.seam.patch import load
from hotlap.source.patch.moves import can_write

ROOT = Path(__file__).parents[3]

BY_HAND = {
    "adamw",
    "async_checkpoint",
    "batch_size",
    "eight_bit_optimizer",
    "einsum_order",
    "fft_convolution",
    "fp8_linear",
    "fused_norm",
    "int8_training",
    "liger_kernels",
    "gradient_clipping",
    "lr_schedule",
    "unused_gradients",
    "inference_mode",
    "index_select",
    "int8_inference",
    "loader_reuse",
    "deferred_logging",
}
"""Their examples are written by hand: the patcher has no edit for them."""
ALL = [record for record in techniques().values() if record.moves and record.id not in BY_HAND]
CASES = [
    pytest.param(record.id, example, id=f"{record.id}-{number}")
    for record in ALL
    for number, example in enumerate(record.examples)
]


@pytest.mark.parametrize(("name", "example"), CASES)
def test_examples_are_true(name, example):
    text, done = patched(example.before, name)
    assert text == (example.before if example.after is None else example.after)
    assert (name in done.written) == (example.after is not None)
    ast.parse(text)


@pytest.mark.parametrize(("name", "example"), CASES)
def test_a_second_time_changes_nothing(name, example):
    once, _ = patched(example.before, name)
    twice, done = patched(once, name)
    assert twice == once
    assert not done.written


@pytest.mark.parametrize("record", ALL, ids=[record.id for record in ALL])
def test_every_technique_has_an_answer(record):
    """On a file with nothing in it: where, and what to do by hand."""
    _, done = patched("import torch\n\nprint(torch.__version__)\n", record.id)
    assert done.written or done.notes
    for note in done.notes:
        assert note.text
        assert note.place.startswith("train.py")


@pytest.mark.parametrize("record", ALL, ids=[record.id for record in ALL])
def test_edits_are_there(record):
    for move in record.moves:
        if isinstance(move, Wrap | Env) and move.edit:
            assert move.edit.startswith("hotlap.source.edits.")
            assert load(move.edit).__doc__


def test_the_page_names_the_techniques_whose_patch_imports_hotlap():
    importing = {
        record.id
        for record in techniques().values()
        if any(map(can_write, record.moves))
        and any("hotlap" in (example.after or "") for example in record.examples)
    }
    page = (ROOT / "docs" / "how-to" / "source.md").read_text("utf-8")
    (sentence,) = re.findall(r"import hotlap, so that.*?\.\n", page, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", sentence)) == importing
