"""A notebook's code cells as one script, and the places and changes of that script as its cells.

The cells become one file, rather than being run in a kernel: so a trial is an ordinary process
that can be stopped, raced and isolated, loader workers and spawned ranks find its functions in a
file, and lint and patch see all cells as one program.
"""

import ast
import difflib
import json
import linecache
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from hotlap.core.errors import UsageError
from hotlap.core.spec import NOTEBOOK_SHIM as SHIM
from hotlap.notebook.cells import as_python, awaited

SUFFIX = ".ipynb"
FOLDER = Path(".hotlap") / "notebooks"
SESSION = "hotlap_session_folder"
"""The key of a notebook's metadata with the folder in which a live session began."""
MEASURED = "hotlap_measured_cell"
"""The key with the number of the only cell that is timed; the others are run in front of it."""
MARK = "# %% code cell "
HEADER = "# hotlap: the code cells of "
PARTS = {"tune": "this cell", "a": "first half", "b": "second half"}
"""What a live session's notebooks, named after these, stand for in words."""
_SESSION_FILE = re.compile(r"(?:.*/)?\.hotlap/session-(\w+)\.ipynb")
_PLACE = re.compile(r"([^\s\"'`:()\[\]]*\.hotlap/notebooks/[^\s\"'`:]+?\.py)(?::(\d+))?(?!\w)")
T = TypeVar("T")


class Notebook:
    """A notebook file and its code cells, counted from 1; cells of other kinds do not count.

    A notebook of another language than Python has none. `folder` is where its program works: beside
    the file, or where the live session began that the file was written of.

    Raises:
        UsageError: the file is not there, or is no notebook.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text("utf-8")
            self.document: dict[str, Any] = json.loads(self.text)
            cells = [cell for cell in self.document["cells"] if cell["cell_type"] == "code"]
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                f"{path} is not a notebook of format 4",
                "open it in Jupyter and save it, or run `jupyter nbconvert --to notebook`",
            ) from None
        about = self.document.get("metadata", {})
        self.language: str = about.get("kernelspec", {}).get("language", "python")
        self.folder: str = about.get(SESSION) or str(path.resolve().parent)
        self.measured: int = about.get(MEASURED, 0)
        self.cells = cells if self.language == "python" else []

    @property
    def sources(self) -> list[str]:
        """The text of each code cell."""
        return ["".join(cell["source"]) for cell in self.cells]

    def code(self, *, checked: bool = False) -> str:
        """The cells as one program, each behind a line that names it.

        Raises:
            UsageError: `checked`, and a cell is not Python.
        """
        parts = []
        for number, source in enumerate(self.sources, 1):
            lines = as_python(source)
            if checked:
                self._check("\n".join(lines), number)
            parts.append("\n".join((f"{MARK}{number}", *lines)))
        return "\n".join(parts) + "\n"

    def _check(self, text: str, number: int) -> None:
        try:
            ast.parse(text)
        except SyntaxError as error:
            raise UsageError(
                f"{self.path}:cell {number}:{error.lineno} is not Python: {error.msg}",
                "clear the cell, or change its type to raw",
            ) from None

    def write_back(self, before: str, after: str) -> list[tuple[int, str, str]]:
        """Take over what changed between two texts of `code()`: number, old and new of each cell.

        Magics and whatever else did not change stay as they were typed. What was added in front of
        the first cell goes into it.
        """
        old, new, changed = _parted(before), _parted(after), []
        new.setdefault(1, "")
        if 0 in new and new[0] != old.get(0, ""):
            added = _added(old.get(0, ""), new[0])
            new[1] = f"{added}\n{new[1]}" if added else new[1]
        for number, (cell, source) in enumerate(zip(self.cells, self.sources, strict=True), 1):
            text = _merged(source, old[number], new.get(number, old[number]))
            if text != source:
                as_list = isinstance(cell["source"], list)
                cell["source"] = text.splitlines(keepends=True) if as_list else text
                changed.append((number, source, text))
        return changed

    def dumped(self) -> str:
        """The file's text, laid out as it was read."""
        second = self.text.split("\n")[1:2]
        indent = len(second[0]) - len(second[0].lstrip()) if second else None
        end = "\n" if self.text.endswith("\n") else ""
        ascii_only = self.text.isascii() and "\\u" in self.text
        return json.dumps(self.document, indent=indent, ensure_ascii=ascii_only) + end


def _parted(text: str) -> dict[int, str]:
    """The text of each cell by its number; 0 for what stands in front of the first."""
    found: dict[int, list[str]] = {0: []}
    number = 0
    for line in text.split("\n")[: -1 if text.endswith("\n") else None]:
        if line.startswith(MARK):
            number = int(line[len(MARK) :])
            found[number] = []
        else:
            found[number].append(line)
    return {number: "\n".join(lines) for number, lines in found.items()}


def _added(before: str, after: str) -> str:
    known = before.split("\n")
    return "\n".join(line for line in after.split("\n") if line not in known)


def _merged(source: str, before: str, after: str) -> str:
    """The source with the changes between two texts of its translation, line for line."""
    lines, old, new = source.split("\n"), before.split("\n"), after.split("\n")
    found: list[str] = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        found += lines[i:j] if tag == "equal" else new[k:m]
    return "\n".join(found)


def script_path(path: Path) -> Path:
    """Where the script of a notebook is written, relative to this folder."""
    inside = os.path.relpath(path).replace("..", "_outside")
    return FOLDER / Path(inside).with_suffix(".py")


def write_script(path: Path) -> Path:
    """The script of a notebook, written below `.hotlap`; its name relative to this folder.

    Raises:
        UsageError: it is no notebook, has a cell that is not Python, or nothing can be written.
    """
    notebook = Notebook(path)
    if notebook.language != "python":
        raise UsageError(f"{path} is a notebook of {notebook.language}, not of Python")
    name, target = os.path.relpath(path), script_path(path)
    plain = notebook.code(checked=True)
    code = awaited(plain)
    about = f"{name!r}, {notebook.folder!r}, awaits={code != plain}"
    if notebook.measured:
        mark = f"{MARK}{notebook.measured}\n"
        code = code.replace(mark, f"{SHIM}.measured()\n{mark}", 1)
        about += ", measured_later=True"
    header = (
        f"{HEADER}{name!r}; written anew at each run\n"
        f"import {SHIM}; {SHIM}.begin(globals(), {about})\n"
    )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(__file__).parent / "shim.py", target.parent / f"{SHIM}.py")
        target.write_text(header + code, "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from None
    _lines.cache_clear()
    linecache.checkcache(str(target.resolve()))  # a live session writes it again and again
    return target


@cache
def _lines(script: str) -> tuple[str, ...]:
    try:
        return tuple(Path(script).read_text("utf-8", "replace").split("\n"))
    except OSError:
        return ()


def notebook_of(script: str) -> str:
    """The notebook that a script was made of; empty if it was made of none."""
    first = (_lines(script) or ("",))[0]
    if not first.startswith(HEADER):
        return ""
    return str(ast.literal_eval(first[len(HEADER) : first.rindex(";")]))


def session_part(notebook: str) -> str:
    """What a live session's notebook stands for, such as `this cell`; empty for other files."""
    found = _SESSION_FILE.fullmatch(notebook)
    return PARTS.get(found[1], "") if found else ""


def cell_of(lines: "tuple[str, ...] | list[str]", line: int) -> tuple[int, int]:
    """The cell and the line in it of a line (from 1) of a notebook's code; (0, 0): in front."""
    for above in range(min(line, len(lines)) - 2, -1, -1):
        if lines[above].startswith(MARK):
            return int(lines[above][len(MARK) :]), line - above - 1
    return 0, 0


def in_cells(value: T) -> T:
    """The value with every place in a notebook's script, in all of its texts, as cell and line."""
    found: T = with_texts(
        value, lambda text: _PLACE.sub(_renamed, text) if ".hotlap/notebooks/" in text else text
    )
    return found


def with_texts(value: object, change: Callable[[str], str]) -> Any:
    """A copy of plain data or dataclasses in which every text is changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {with_texts(k, change): with_texts(entry, change) for k, entry in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(with_texts(entry, change) for entry in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{
            f.name: with_texts(getattr(value, f.name), change) for f in fields(value) if f.init
        })  # fmt: skip
    return value


def _renamed(found: re.Match[str]) -> str:
    script, line = found[1], found[2]
    name = notebook_of(script)
    if not name:
        return found[0]
    cell, inside = cell_of(_lines(script), int(line)) if line else (0, 0)
    return f"{name}:cell {cell}:{inside}" if cell else name
