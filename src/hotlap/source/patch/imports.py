"""How a name is spelt in a file, and the import it needs."""

import ast
from collections.abc import Iterator

from hotlap.source.patch.draft import Draft, UnsureError
from hotlap.source.tree import text

_HEAD = (ast.Import, ast.ImportFrom, ast.Try, ast.If)


def spelt(draft: Draft, dotted: str) -> str:
    """The expression that means `dotted` in this file; an import is added where it takes one.

    Raises:
        UnsureError: the name that would be imported means something else in the file.
    """
    found = _imported(draft, dotted)
    if found:
        return found
    module, _, name = dotted.rpartition(".")
    if module == "torch" or module.startswith(("torch.a", "torch.b", "torch.c")):
        _add(draft, "import torch", "torch")
        return dotted
    if dotted == "numpy.stack":
        _add(draft, "import numpy as np", "np")
        return "np.stack"
    if not _joined(draft, module, name):
        _add(draft, f"from {module} import {name}", name)
    return name


def head_end(draft: Draft) -> tuple[ast.stmt | None, bool]:
    """Where the head of a script ends: its last import, or the torch settings right below it.

    The flag says that it is such a setting.
    """
    body, found = draft.source.tree.module.body, _last_import(draft)
    setting = False
    for statement in body[body.index(found) + 1 :] if found is not None else ():
        if not _sets_torch(draft, statement):
            break
        found, setting = statement, True
    return found, setting


def import_place(draft: Draft, module: str) -> ast.stmt:
    """The statement that an import of names from a module is added to, or stands next to."""
    body = draft.source.tree.module.body
    same = [s for s in body if isinstance(s, ast.ImportFrom) and s.module == module]
    return (same or _block(draft)[-1:] or body)[0]


def _last_import(draft: Draft) -> ast.stmt | None:
    """The last import at the head of a module, those in `try` and `if` included."""
    found: ast.stmt | None = None
    body = draft.source.tree.module.body
    for statement in body:
        if isinstance(statement, _HEAD) and _imports(statement):
            found = statement
        elif not _is_prelude(statement):
            break
    torch = [s for s in body if _names_torch(s)]
    late = torch and (found is None or torch[0].lineno > found.lineno)
    return torch[0] if late else found


def _sets_torch(draft: Draft, statement: ast.stmt) -> bool:
    """`torch.set_...(...)` or `torch.backends... = ...`."""
    if isinstance(statement, ast.Assign):
        return draft.source.names.of(statement.targets[0]).startswith("torch.")
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and draft.source.names.of(call.func).startswith("torch.set_")


def _imports(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If) and "__main__" in ast.unparse(statement.test):
        return False
    return any(isinstance(n, ast.Import | ast.ImportFrom) for n in ast.walk(statement))


def _is_prelude(statement: ast.stmt) -> bool:
    """A docstring, `__version__ = ...`, `os.environ[...] = ...`: what stands among imports."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if not isinstance(statement, ast.Assign):
        return False
    target = statement.targets[0]
    dunder = isinstance(target, ast.Name) and target.id.startswith("__")
    return dunder or (isinstance(target, ast.Subscript) and text(target.value) == "os.environ")


def _names_torch(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import) and any(a.name == "torch" for a in statement.names)


def _joined(draft: Draft, module: str, name: str) -> bool:
    """Add a name to an import of the same module, if there is one on a line of its own."""
    for statement in draft.source.tree.module.body:
        if not isinstance(statement, ast.ImportFrom) or statement.module != module:
            continue
        if statement.level or statement.names[0].name == "*":
            continue
        draft.changes.imported(statement, name)
        return True
    return False


def _imported(draft: Draft, dotted: str) -> str:
    """The name that the module's own imports give it; the longest import of it counts."""
    found = [
        (whole, alias.asname or alias.name)
        for statement in draft.source.tree.nodes
        if draft.source.tree.function(statement) is None
        for alias, whole in _aliases(statement)
        if dotted == whole or _reaches(statement, whole, dotted)
    ]
    if not found:
        return ""
    whole, name = max(found)
    return name + dotted[len(whole) :]


def _aliases(statement: ast.AST) -> Iterator[tuple[ast.alias, str]]:
    """What an import binds, with the dotted name it stands for."""
    if isinstance(statement, ast.ImportFrom) and not statement.level:
        yield from ((alias, f"{statement.module}.{alias.name}") for alias in statement.names)
    elif isinstance(statement, ast.Import):
        yield from ((alias, alias.name) for alias in statement.names)


def _reaches(statement: ast.AST, whole: str, dotted: str) -> bool:
    """`import torch` reaches `torch.autocast`; below `torch.utils` one imports by name."""
    if not dotted.startswith(f"{whole}."):
        return False
    return not (whole == "torch" and dotted.startswith("torch.utils.")) and whole != "hotlap"


def _add(draft: Draft, code: str, name: str) -> None:
    bound = draft.script.origins.bound(draft.source.tree.module, name)
    if bound:
        raise UnsureError(None, f"`{name}` means something else in this file: write `{code}` first")
    if code in draft.imports:
        return
    draft.imports.add(code)
    block = _block(draft)
    if not block:
        _first(draft, code)
        return
    later = [s for s in block if isinstance(s, ast.ImportFrom) and _key(s) > _key_of(code)]
    if later and code.startswith("from"):
        draft.changes.insert_before(later[0], code)
    else:
        draft.changes.insert_after(block[-1], code)


def _block(draft: Draft) -> list[ast.stmt]:
    """The run of import lines that torch is imported in, or the last run."""
    runs: list[list[ast.stmt]] = []
    for statement in draft.source.tree.module.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            continue
        last = runs[-1][-1] if runs else None
        if last is not None and last.end_lineno == statement.lineno - 1:
            runs[-1].append(statement)
        else:
            runs.append([statement])
    with_torch = [run for run in runs if any("torch" in ast.unparse(s) for s in run)]
    return (with_torch or runs or [[]])[-1]


def _first(draft: Draft, code: str) -> None:
    body = draft.source.tree.module.body
    future = [s for s in body if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
    after = (
        future[-1] if future else body[0] if ast.get_docstring(draft.source.tree.module) else None
    )
    if after is not None:
        draft.changes.insert_after(after, code)
    else:
        draft.changes.insert_before(body[0], code)


def _key(statement: ast.ImportFrom) -> str:
    return (statement.module or "").lower()


def _key_of(code: str) -> str:
    return code.split()[1].lower()
