"""A patch on a terminal: coloured there, plain in a pipe."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from hotlap.core.recipe import Kept, Recipe
from hotlap.reporting import patch_text
from hotlap.source.patch.plan import Patch, patch
from hotlap.source.patch.text import File

TEXT = "from torch.utils.data import DataLoader\n\nDataLoader(ds)  # [red]not markup[/red]\n"


def planned() -> Patch:
    recipe = Recipe({"pinned_memory": Kept(), "fragmentation": Kept()})
    return patch(recipe, [File(Path("train.py"), TEXT, "utf-8")])


def test_colours_on_a_terminal():
    out = io.StringIO()
    patch_text.show_diff(Console(file=out, force_terminal=True, color_system="standard"), planned())
    shown = out.getvalue()
    assert "\x1b[32m+DataLoader(ds, pin_memory=True)  # [red]not markup[/red]" in shown
    assert "\x1b[31m-DataLoader(ds)" in shown


def test_plain_in_a_pipe(capsys):
    patch_text.show_diff(Console(file=io.StringIO()), planned())
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert shown.startswith("--- a/train.py\n+++ b/train.py\n@@")


def test_notes_name_place_technique_and_what_to_do():
    out = io.StringIO()
    patch_text.show_lists(Console(file=out, width=40), planned(), written=False)
    patch_text.show_notes(Console(file=out, width=40), planned())
    assert "to be written with --write: pinned_memory\n" in out.getvalue()
    note = "  train.py  fragmentation: `export PYTORCH_ALLOC_CONF=expandable_segments:True`"
    assert note in out.getvalue()


@pytest.mark.parametrize(("name", "imports"), [("keep_heap", True), ("pinned_memory", False)])
def test_a_patch_says_that_its_code_needs_hotlap(name, imports):
    text = "import torch\n" + TEXT
    done = patch(Recipe({name: Kept()}), [File(Path("train.py"), text, "utf-8")])
    out = io.StringIO()
    patch_text.show_lists(Console(file=out, width=40), done, written=False)
    assert done.changed
    assert done.imports_hotlap is imports
    assert (patch_text.INSTALL in out.getvalue()) is imports


def test_what_has_no_form_in_source_names_the_command_that_applies_it():
    done = patch(Recipe({"loader_reuse": Kept()}), [File(Path("train.py"), TEXT, "utf-8")])
    (note,) = done.notes
    assert note.text.startswith("`hotlap run` applies it")
