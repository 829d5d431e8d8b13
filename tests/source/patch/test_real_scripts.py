"""Whole scripts in many styles: every technique at once; the result parses, and stays as it is."""

import ast

import pytest
from patching import recipe

from hotlap.core.registry import techniques
from hotlap.source.patch.plan import patch
from hotlap.source.patch.text import File
from idioms.manifest import FOLDER

ALL = [record.id for record in techniques().values() if record.moves]
SOME = {"ddp_torchrun", "gan", "grad_accumulation", "lightning_trainer"}
SCRIPTS = [
    pytest.param(path, id=path.stem, marks=() if path.stem in SOME else pytest.mark.slow)
    for path in sorted(FOLDER.glob("*.py"))
]


@pytest.mark.parametrize("path", SCRIPTS)
def test_everything_at_once_and_once_more(path):
    file = File.read(path)
    wanted = recipe(*ALL, dtype="float16")
    done = patch(wanted, [file])
    text = done.texts[file]
    ast.parse(text)
    assert {*done.written, *done.present, *(n.technique for n in done.notes)} == set(ALL)
    again = patch(wanted, [File(path, text, "utf-8")])
    assert not again.changed
