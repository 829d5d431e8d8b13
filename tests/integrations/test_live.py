"""A part of a live process is profiled, and nothing stays; the magics show cards."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import hotlap
from hotlap.core.errors import NotReachedError, UsageError
from hotlap.core.protocol import (
    Avoidable,
    Holder,
    Invariant,
    PhaseTimes,
    ProfilePayload,
    UnusedRows,
)
from hotlap.integrations.ipython import _in_session, followed
from hotlap.integrations.live import _spinning
from hotlap.integrations.session_cells import behind, preparing, without_unused
from hotlap.integrations.session_script import session_script
from hotlap.notebook.script import Notebook


def train(loader: Any, model: Any, optimizer: Any, epochs: int) -> None:
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


def parts() -> tuple[Any, Any, Any]:
    data = TensorDataset(torch.randn(128, 16), torch.randint(0, 4, (128,)))
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    return DataLoader(data, batch_size=8), model, torch.optim.SGD(model.parameters(), lr=0.1)


def state() -> tuple[Any, ...]:
    return DataLoader.__iter__, torch.optim.SGD.step, torch.save, sys.getswitchinterval()


def test_a_live_loop_is_profiled_and_left_as_it_was(tmp_path: Path) -> None:
    mine = parts()
    train(*mine, epochs=1)  # torch replaces `step` when the first optimizer is made
    before = state()
    with hotlap.profiling(show=False) as found:
        train(*mine, epochs=6)
    assert found.profile is not None
    assert {phase.name for phase in found.profile.phases} >= {"forward", "backward", "optimizer"}
    assert found.profile.steps > 30
    assert state() == before
    found.save(tmp_path / "profile.json")
    assert json.loads((tmp_path / "profile.json").read_text())["verb"] == "profile"
    assert "a step" in found._repr_html_()
    assert "`hotlap tune` before the command" in " ".join(repr(found).split())
    assert "CMD" not in repr(found)


def test_a_short_live_profile_says_that_it_is_rough() -> None:
    with hotlap.profiling(show=False) as found:
        train(*parts(), epochs=1)
    assert found.profile is not None
    assert found.profile.steps < 20
    assert "steps timed" in found._repr_html_()
    assert "profile more steps" in " ".join(repr(found).split())
    assert "--budget" not in repr(found)


def test_threads_that_spin_are_why_a_profile_of_the_same_code_as_a_file_differs() -> None:
    with hotlap.profiling(show=False) as found:
        train(*parts(), epochs=3)
    assert found.profile is not None
    for spin in (True, False):
        facts = {**found.profile.facts, "contended_threads": spin}
        notes = " ".join(_spinning(replace(found.profile, facts=facts, notes=())).notes)
        assert ("lets its threads sleep" in notes) is spin


def test_a_block_without_training_says_so_and_blocks_do_not_nest() -> None:
    inner = hotlap.profiling()
    with hotlap.profiling(show=False) as found, pytest.raises(UsageError, match="already"):
        inner.__enter__()
    with pytest.raises(NotReachedError, match="too few training steps"):
        found.document()
    assert "too few training steps" in found._repr_html_()


LOOP = """\
for _ in range(6):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()"""
SETUP = """\
import time, torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(128, 16), torch.randint(0, 4, (128,)))
loader = DataLoader(data, batch_size=8)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"""


def run(folder: Path, *cells: str, kind: str = "text/html") -> list[str]:
    """The HTML (or another kind of output) that each cell shows, run in a kernel."""
    return shown_as(kind, executed(folder, *cells))


def executed(folder: Path, *cells: str) -> nbformat.NotebookNode:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(
        book, timeout=200, allow_errors=True, resources={"metadata": {"path": str(folder)}}
    ).execute()
    return book


def shown_as(kind: str, book: nbformat.NotebookNode) -> list[str]:
    return [
        "".join(
            output.get("data", {}).get(kind, "") or "".join(output.get("traceback", ()))
            for output in cell["outputs"]
        )
        for cell in book.cells
    ]


def test_the_magic_profiles_a_cell_in_its_kernel_and_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import torch\n")
    book = executed(
        tmp_path, "%load_ext hotlap", SETUP, f"%%hotlap profile\n{LOOP}\nkept = 3", "kept / 0",
        "%%hotlap what\nx", "%%hotlap race\nx = 1", "%%hotlap profil\nx", "%hotlap lint t.py",
        "%hotlap profile", "%hotlap profile train(1)",
    )  # fmt: skip
    page, shown = shown_as("text/html", book), shown_as("text/plain", book)
    assert "Where a step goes" in page[2]
    assert "ipykernel_" not in page[2]
    assert "ZeroDivisionError" in page[3]  # the cell's names are the kernel's
    assert "usage:" in page[4]
    assert "a step on cpu, over" in shown[2]
    assert "CMD" not in shown[2]
    assert "%%hotlap tune" in shown[2]
    assert "hotlap tune`" not in shown[2], "a cell is no command of a shell"
    assert shown[5].startswith("hotlap: the cell has no line `# --`")
    assert shown[6].startswith("hotlap: there is no verb 'profil' for a cell; did you mean 'prof")
    assert "nothing found" in shown[7]
    for one in shown[8:]:
        assert one.startswith("hotlap: %hotlap profile needs a cell")


def test_a_cell_is_judged_by_its_source_as_a_file_is(tmp_path: Path) -> None:
    loop = f"{LOOP}\n        kept.append(model(x))"
    shown = run(
        tmp_path, "%load_ext hotlap", "1 / 0", f"{SETUP}\nkept = []", f"%%hotlap profile\n{loop}",
        kind="text/plain",
    )  # fmt: skip
    text = " ".join(shown[3].split())
    assert "keeps the graph of every step alive (kept: " in text
    assert "at In [4]:6 kept.append(model(x))" in text, "line 1 is the one below the magic"
    assert "session-profile" not in text
    assert "lint --fix" not in text


def test_what_was_seen_in_a_kernels_files_is_moved_to_the_script_of_the_session(
    tmp_path: Path,
) -> None:
    book = {"cells": [{"cell_type": "code", "source": text} for text in ("a = 1\nb = 2", "c = 3")]}
    (tmp_path / "s.ipynb").write_text(json.dumps(book))
    path = tmp_path / "s.py"
    path.write_text(f"# hotlap\nimport shim\n{Notebook(tmp_path / 's.ipynb').code()}")
    names = {"a = 1\nb = 2": "1", "%%hotlap profile\nc = 3": "2", "c = 3": "3"}
    cells = ["a = 1\nb = 2", "%%hotlap profile\nc = 3"]
    script = session_script(
        path, cells, lambda text: f"/tmp/ipykernel_7/{names.get(text.rstrip(), '9')}.py"
    )
    seen = ProfilePayload(
        PhaseTimes(0.1), {}, places={"model": "../ipykernel_7/1.py:2", "save": "/tmp/other.py:2"},
        sampled={"/tmp/ipykernel_7/1.py": {2: {}}, "/tmp/ipykernel_7/3.py": {1: {}}},
        retained=[Holder("local", "x", "/tmp/ipykernel_7/1.py", 1)],
        operators_on={
            "/tmp/ipykernel_7/1.py": {1: (3, 0.1, 0.0)},
            "/tmp/ipykernel_7/3.py": {1: (4, 0.2, 0.5)},
        },
        invariants=[Invariant("/tmp/ipykernel_7/1.py", 2, 1, 2, 0.1)],
        in_vain={"repeated_in_step": [Avoidable("/tmp/ipykernel_7/3.py", 1, 2, 0.5, 0.2)]},
        unused=[
            UnusedRows("/tmp/ipykernel_7/1.py", 2, 0.1, 0.2, "/tmp/ipykernel_7/3.py", 1),
            UnusedRows("/tmp/other.py", 2, 0.1, 0.2),
        ],
    )  # fmt: skip
    found = script.placed(seen)
    own = str(path)
    assert found.operators_on == {own: {4: (3, 0.1, 0.0), 8: (4, 0.2, 0.5)}}
    assert found.invariants == [Invariant(own, 5, 4, 5, 0.1)]
    assert found.in_vain == {"repeated_in_step": [Avoidable(own, 8, 2, 0.5, 0.2)]}
    assert found.unused == [
        UnusedRows(own, 5, 0.1, 0.2, own, 8), UnusedRows("/tmp/other.py", 2, 0.1, 0.2),
    ]  # fmt: skip
    assert found.places == {"model": f"{path}:5", "save": "/tmp/other.py:2"}
    assert found.sampled == {str(path): {5: {}, 8: {}}}
    assert found.retained == [Holder("local", "x", str(path), 4)]


def test_a_block_in_a_notebook_is_shown_as_a_card_that_names_cells(tmp_path: Path) -> None:
    body = "\n".join(f"    {line}" for line in LOOP.split("\n"))
    shown = run(tmp_path, "import hotlap", SETUP, f"with hotlap.profiling():\n{body}")
    assert "<" in shown[2], "one card, no lines of text"
    assert "ipykernel_" not in shown[2]


def test_a_race_begins_where_the_session_did_and_shows_why_it_failed(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 1\n")
    shown = run(
        tmp_path, "%load_ext hotlap", "from beside import VALUE\nopen('beside.py').close()",
        "%%hotlap race\nprint(VALUE)\nVALUE / 0\n# --\nprint(VALUE)", kind="text/plain",
    )  # fmt: skip
    assert shown[2].startswith("hotlap: ZeroDivisionError: division by zero (first half:2)")


@pytest.mark.parametrize(
    ("ran", "parts", "again"),
    [
        ([SETUP, "%%hotlap profile\ntrain(0)"], ["train(0)"], [1]),
        ([SETUP, "train(0)", "train(1)"], ["train(0)"], [1, 3]),
        ([SETUP, "n = 1\ntrain(n)"], ["n = 1\ntrain(n)"], [1]),
        ([SETUP, "n = 1\ntrain(n)"], ["n = 1\ntrain(n)", "train(n)"], [1, 2]),
        (["%%hotlap profile\nloss = train(0)"], ["loss = train(1)\nprint(loss)"], []),
        (["%%hotlap profile\nloss = train(0)", "a = loss"], ["train(1)"], [1, 2]),
        (["%load_ext hotlap", "%%hotlap race\nx = 1\n# --\nx", "1"], ["x"], [1, 3]),
        ([SETUP, "print(_)", "Out[1].plot()", "_i1"], ["train(0)"], [1]),
        ([SETUP, "kept = Out[1]", "for _ in data: print(_)"], ["train(kept)"], [1, 2, 3]),
    ],
)
def test_cells_that_only_ran_what_is_tested_are_not_run_again(
    ran: list[str], parts: list[str], again: list[int]
) -> None:
    assert [number for number, _ in preparing(enumerate(ran, 1), parts)] == again


OLD = "def train():\n    for x in data:\n        step(x)"
NEW = OLD.replace("step(x)", "step(x, model)")
LOAD = "import torch\ndata = torch.ones(3)"


@pytest.mark.parametrize(
    ("ran", "stands_on"),
    [
        ([LOAD, OLD, "train()", NEW], [1, 4]),
        ([LOAD, NEW, "def step(x, m): pass", "model = 1", "%matplotlib inline"], [1, 2, 3, 4]),
        ([LOAD, "%%hotlap profile\ntrain()", OLD, "for x in data:\n    print(x)"], [1, 3]),
        ([LOAD, OLD, "torch.backends.a = 1", "torch.backends.b = 2"], [1, 2, 3, 4]),
        ([LOAD, "data = data * 2", OLD, "%%hotlap race\ndata = 1\n# --\nx"], [1, 2, 3]),
        ([LOAD, "from steps import *", OLD], [1, 2, 3]),
        ([LOAD, OLD, "%%time\ndata = 3"], [2, 3]),
    ],
)
def test_a_cell_stands_on_the_newest_that_made_what_it_uses(
    ran: list[str], stands_on: list[int]
) -> None:
    assert [number for number, _ in behind(enumerate(ran, 1), "train()")] == stands_on


FUNCTIONS = """\
@decorated
def unused():
    return unused_too()
def unused_too():
    pass
def by_name(): one()
def one(): pass
class Mine:
    def __len__(self): helper()
    def called(self): pass
    def other(self):
        pass
class Theirs(Module):
    def hook(self): pass
def helper(): pass
%time one()"""


def test_functions_that_a_cell_does_not_use_are_left_out_of_its_script() -> None:
    cells = [
        FUNCTIONS,
        "not python at all",
        "Mine().called()\ngetattr(x, 'by_name')\ndef f(): pass",
    ]
    found = without_unused(cells)
    assert found[1:] == cells[1:]
    assert found[0].split("\n") == [
        "pass", "", "", "pass", "", "def by_name(): one()", "def one(): pass", "class Mine:",
        "    def __len__(self): helper()", "    def called(self): pass", "    pass", "",
        "class Theirs(Module):", "    def hook(self): pass", "def helper(): pass", "%time one()",
    ]  # fmt: skip


def test_a_profiled_cell_that_fails_shows_its_steps_and_ends_the_run(tmp_path: Path) -> None:
    cell = f"%%hotlap profile\n{LOOP}\n1 / 0"
    shown = run(
        tmp_path, "%load_ext hotlap", SETUP, "before = 1", cell, "%%hotlap profile --steps 5\nx",
        "%%hotlap profile\nimport asyncio\nawait asyncio.sleep(0)",
        "%%hotlap race\nprint(before); VALUE\n# --\nx", kind="text/plain",
    )  # fmt: skip
    assert "division by zero" in shown[3]
    assert "a step on cpu, over" in shown[3]
    assert shown[3].endswith("the cell ended with ZeroDivisionError, as shown above")
    assert "takes no options, and was given --steps 5" in shown[4]
    assert "awaits outside of functions" in shown[5]
    assert "NameError: name 'VALUE'" in shown[6], "the cells before the failed one are run"


def test_places_in_a_sessions_notebook_are_its_cells() -> None:
    text = (
        "no_grad_eval [.hotlap/session-tune.ipynb:cell 2:9], .hotlap/session-tune.ipynb:cell\n  3:1"
    )
    assert _in_session(text, {"tune": [4, 6]}) == "no_grad_eval [In [6]:9], this cell:1"


def test_a_card_follows_its_verb_and_shows_no_progress_at_the_end(tmp_path: Path) -> None:
    script = tmp_path / "verb.py"
    script.write_text(
        "print('hotlap: settling', flush=True)\nimport sys, time\ntime.sleep(0.2)\n"
        "print('hotlap: late', file=sys.stderr)\nprint('found')\n"
    )
    child = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    told: list[str] = []
    assert followed(child, told.append) == ("hotlap: settling\nfound\n", "hotlap: late\n")
    assert sorted(told) == ["hotlap: late", "hotlap: settling"]
    assert told[0] == "hotlap: settling"


@pytest.mark.slow
def test_the_magic_races_the_halves_of_a_cell(tmp_path: Path) -> None:
    slow = LOOP.replace("optimizer.step()", "optimizer.step(); time.sleep(0.02)")
    many = LOOP.replace("range(6)", "range(10**6)")
    slow = slow.replace("range(6)", "range(10**6)")
    cell = f"%%hotlap race --budget 10s\n{slow}\n# --\n{many}"
    shown = run(tmp_path, "%load_ext hotlap", "1 / 0", SETUP, cell)
    assert "settling both" not in shown[3]
    assert "B is faster" in shown[3], shown[3]
    assert "first half" in shown[3]
    assert "session-a" not in shown[3]


def test_a_name_that_is_close_to_one_of_ours_is_answered_with_it():
    with pytest.raises(AttributeError, match=r"did you mean hotlap\.profiling\(\)\?"):
        hotlap.profilin()
    with pytest.raises(AttributeError, match="no attribute 'xyz'"):
        hotlap.xyz()
