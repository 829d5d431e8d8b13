"""Cells become Python line for line, and changes of that find their way back."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest
from notebooks import HABITS, write

from hotlap.core.errors import UsageError
from hotlap.notebook import shim
from hotlap.notebook.cells import as_python, awaited, bound_names, needed_names
from hotlap.notebook.script import Notebook, cell_of, in_cells, write_script
from hotlap.trial.command import normalise, shown


@pytest.mark.parametrize(
    ("source", "python"),
    [
        ("%matplotlib inline", "get_ipython().run_line_magic('matplotlib', 'inline')"),
        ("!ls -l {x}", "get_ipython().system('ls -l {x}')"),
        ("names = !ls", "names = get_ipython().getoutput('ls')"),
        ("a = %env HOME", "a = get_ipython().run_line_magic('env', 'HOME')"),
        ("%time train(1)", "train(1)"),
        ("%timeit -n 10 -r 3 f(x)", "f(x)"),
        ("%prun -l 20 f(-1)", "f(-1)"),
        ("if a:\n    !ls\n    %time f()", "if a:\n    get_ipython().system('ls')\n    f()"),
        ("model.fit?", "pass"),
        ("?print", "pass"),
        ("%%time\nf()", "\nf()"),
        ("\n%%capture out\nf()", "\n\nf()"),
        (
            "%%bash\necho 'a'\nls",
            "get_ipython().run_cell_magic('bash', '', ''\n\"echo 'a'\\n\"\n'ls\\n')",
        ),
    ],
)
def test_what_becomes_python(source: str, python: str) -> None:
    assert "\n".join(as_python(source)) == python
    ast.parse(python)


@pytest.mark.parametrize(
    "source",
    [
        "x = (a\n  % b)",
        "x = a \\\n  % b",
        'text = """\n%matplotlib inline\n!ls\n"""',
        "x = '%d !' % 3",
        "a = b != c",
        "# it's\nf('!ls')",
        "x: int = 3 % 2",
    ],
)
def test_what_is_left_alone(source: str) -> None:
    assert "\n".join(as_python(source)) == source


AWAITS = """\
import asyncio
async def number(n):
    await asyncio.sleep(0)
    return n
async def numbers():
    for n in range(3):
        yield await number(n)
class Block:
    async def __aenter__(self):
        return await number(7)
    async def __aexit__(self, *error):
        left.append(error[0])
        return True
left, seen = [], []
task = asyncio.create_task(number(1))
é = [await (number(await number(5))), await task]
async for n in numbers():
    seen.append(n)
else:
    seen.append("end")
async with Block() as block, Block():
    raise ValueError("x")
listed = [2 * n async for n in numbers()]
lazy = (n async for n in numbers())
both = await asyncio.gather(number(8),
                            number(9))"""


def test_cells_that_await_run_as_they_do_in_a_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.ipynb", "import os", AWAITS, "print(é, seen, left, block, listed, both)")
    notebook = Notebook(tmp_path / "a.ipynb")
    assert len(awaited(notebook.code()).split("\n")) == len(notebook.code().split("\n"))
    script = write_script(Path("a.ipynb"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stdout == (
        "[5, 1] [0, 1, 2, 'end'] [<class 'ValueError'>, None] 7 [0, 2, 4] [8, 9]\n"
    ), done.stderr


def test_awaits_inside_of_functions_are_left_alone() -> None:
    code = "async def f():\n    return await g()\nlate = lambda: asyncio.run(f())\n"
    assert awaited(code) == code


def test_places_in_the_script_are_places_in_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub" / "a.ipynb", "x = 1", "#md text", "y = 2\nz = 3")
    script = write_script(Path("sub/a.ipynb"))
    lines = script.read_text().split("\n")
    line = lines.index("z = 3") + 1
    assert cell_of(lines, line) == (2, 2)
    said = in_cells({"at": [f"{script}:{line}", f"see {script}."], "n": 3})
    assert said == {"at": ["sub/a.ipynb:cell 2:2", "see sub/a.ipynb."], "n": 3}


def test_a_change_is_written_back_and_magics_stay(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ipynb", "%matplotlib inline\nimport os", "!ls\nx = f(1)\ny = 2")
    notebook = Notebook(path)
    before = notebook.code()
    after = "import new\n" + before.replace("f(1)", "f(1, fast=True)")
    changed = notebook.write_back(before, after)
    assert [number for number, _, _ in changed] == [1, 2]
    assert notebook.sources == [
        "import new\n%matplotlib inline\nimport os",
        "!ls\nx = f(1, fast=True)\ny = 2",
    ]
    written = json.loads(notebook.dumped())
    nbformat.validate(written)
    untouched = Notebook(path)
    assert not untouched.write_back(before, before)
    assert untouched.dumped() == path.read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [("{}", "no notebook|not a notebook"), ("[1", "not a notebook"), (None, "cannot read")],
)
def test_what_is_no_notebook(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "a.ipynb"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=message):
        Notebook(path)


def test_other_languages_and_broken_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "j.ipynb", "println(1)", language="julia")
    with pytest.raises(UsageError, match="notebook of julia"):
        write_script(Path("j.ipynb"))
    write(tmp_path / "b.ipynb", "x = 1", "y = 1\nx = (")
    with pytest.raises(UsageError, match=r"b\.ipynb:cell 2:2 is not Python"):
        write_script(Path("b.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("habit", HABITS)
def test_the_notebooks_of_the_tests_run_in_a_kernel(habit: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"{habit}.ipynb", *HABITS[habit])
    document = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        document, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()


@pytest.mark.parametrize(
    ("source", "bound", "needed"),
    [
        ("train_epoch(0)", "", "train_epoch"),
        ("x = x + 1", "x", "x"),
        ("x = 1\nprint(x)", "x", "print"),
        ("n += k", "n", "n k"),
        ("for i, j in rows:\n    i + j", "i j", "rows"),
        ("import a.b, c as d\nfrom e import f", "a d f", ""),
        ("cfg['lr'] = 1", "cfg", "cfg"),
        ("def f(a):\n    b = a\n    return b + outer", "f", "outer"),
        ("with torch.no_grad() as g:\n    g", "g", "torch"),
        ("%time train(n)", "", "train n"),
        ("not python at all", "", ""),
    ],
)
def test_names_that_a_cell_binds_and_needs(source: str, bound: str, needed: str) -> None:
    assert bound_names(source) == set(bound.split())
    assert needed_names(source) == set(needed.split())


@pytest.mark.parametrize(
    ("words", "before", "shown_as"),
    [
        (["a.ipynb", "-x"], [sys.executable], "a.ipynb -x"),
        (["python3", "a.ipynb"], ["python3"], "a.ipynb"),
        (["env", "K=1", "J=2", "a.ipynb"], ["env", "K=1", "J=2", sys.executable],
         "env K=1 J=2 a.ipynb"),
        (["env", "K=1", "python3", "a.ipynb"], ["env", "K=1", "python3"], "env K=1 a.ipynb"),
    ],
)  # fmt: skip
def test_a_notebook_behind_variables_runs_as_its_script(
    words: list[str],
    before: list[str],
    shown_as: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("a.ipynb"), "x = 1")
    command = normalise(words)
    assert command == (*before, ".hotlap/notebooks/a.py", *words[words.index("a.ipynb") + 1 :])
    assert shown(command) == shown_as


class Shown:
    """What a notebook may display: a picture, a table, and what cannot be made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def savefig(self, _file: object, **options: object) -> None:
        self.made.append(str(options["format"]))

    def _repr_html_(self) -> None:
        self.made.append("html")
        raise ValueError  # the rest is not made then

    def _repr_png_(self) -> None:
        self.made.append("png again")


def test_what_is_displayed_is_made_as_often_as_in_a_notebook() -> None:
    shown = Shown()
    assert shim.display(shown, 7) is None
    handle = shim.display(shown, display_id=True)
    assert isinstance(handle, shim.DisplayHandle)
    handle.update(shown)
    handle.display(shown)
    assert shown.made == ["png", "html"] * 4
    named = shim.display(7, display_id="x")
    assert named is not None
    assert named.display_id == "x"


def test_open_figures_are_drawn_and_closed_where_they_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn: list[int] = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: drawn.append(1))
    pyplot.figure()
    pyplot.figure()
    shim._show()
    assert len(drawn) == 2
    assert pyplot.get_fignums() == []
