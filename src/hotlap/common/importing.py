"""Importing the user's own modules, where that only defines things."""

import ast
import importlib
import importlib.util
import linecache
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

WORK = frozenset({
    "backward", "save", "save_pretrained", "savefig", "to_csv", "write_bytes", "write_text",
})  # fmt: skip
"""Methods and functions that train, or write files, by the last part of their name."""
TRAINERS = frozenset({"fit", "train"})
"""Methods that train where their object is called a trainer."""
MAIN = re.compile(r"__name__ == |'__main__' == __name__")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class WorksAtImportError(ValueError):
    """A module trains or writes files when it is imported; `hint` says what to do."""

    hint = (
        "put what is not a definition below `if __name__ == '__main__':`, or the functions into a "
        "file of their own"
    )


def import_users(module: str) -> ModuleType:
    """Import a module of the user's that defines things and does no work.

    To import a script that trains at its top level would train, and write its checkpoints over
    those that are there.

    Args:
        module: its name; the folder that it lies in is on the path.

    Raises:
        ModuleNotFoundError: there is none.
        WorksAtImportError: it calls at its top level what trains or writes files.
    """
    found = None if module in sys.modules else importlib.util.find_spec(module)
    if found is not None and found.origin is not None and found.origin.endswith(".py"):
        line = work_at_import(Path(found.origin))
        if line is not None:
            raise WorksAtImportError(
                f"{os.path.relpath(found.origin)} works when it is imported: line {line}, "
                f"{linecache.getline(found.origin, line).strip()}"
            )
    return importlib.import_module(module)


def work_at_import(file: Path) -> int | None:
    """The first line at a file's top level that trains or writes, itself or by a function there.

    What stands below `if __name__ == "__main__"` is not run by an import.
    """
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None  # the import says what is wrong
    functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    working: set[str] = set()
    while more := {
        name
        for name, each in functions.items()
        if name not in working and any(_works(call, working) for call in _calls(each.body))
    }:
        working |= more
    lines = (call.lineno for call in _calls(tree.body) if _works(call, working))
    return min(lines, default=None)


def _calls(nodes: list[ast.stmt]) -> Iterator[ast.Call]:
    """The calls in statements that run with them, not later."""
    todo: list[ast.AST] = [*nodes]
    while todo:
        node = todo.pop()
        if isinstance(node, DEFINITIONS):
            continue
        if isinstance(node, ast.If) and MAIN.match(ast.unparse(node.test)):
            todo += node.orelse
            continue
        if isinstance(node, ast.Call):
            yield node
        todo += ast.iter_child_nodes(node)


def _works(call: ast.Call, working: set[str]) -> bool:
    """Whether a call trains or writes; `working` are functions of the file that do."""
    if isinstance(call.func, ast.Attribute):
        name = call.func.attr
        trainer = ast.unparse(call.func.value).lower().endswith("trainer")
        return name in WORK or (trainer and name in TRAINERS) or _opened(call, name, 0)
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    return name in working or name in WORK or _opened(call, name, 1)


def _opened(call: ast.Call, name: str, position: int) -> bool:
    """Whether a call is one of `open` with a mode, the argument at `position`, that writes."""
    if name != "open":
        return False
    given = call.args[position : position + 1]
    modes = [*given, *(each.value for each in call.keywords if each.arg == "mode")]
    return any(isinstance(m, ast.Constant) and set("wax+") & set(str(m.value)) for m in modes)
