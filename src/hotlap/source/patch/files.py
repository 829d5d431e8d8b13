"""Which files a recipe's command is made of: its script, and what that imports from here."""

import ast
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from hotlap.core.errors import UsageError
from hotlap.core.recipe import Measured
from hotlap.notebook.script import SUFFIX, write_script

_LIMIT = 200


def files_of(measured: Measured) -> list[Path]:
    """The script files of a recipe's command below the working directory, the started one first.

    Where the recipe names the program that trained, that is the started one.

    Raises:
        UsageError: there is no command, or it starts no Python file of here.
    """
    command, program = measured.command, Path(measured.program)
    script = program if _here(program) else _script(shlex.split(command))
    if script is None:
        nothing = f"no Python file below this folder is started by `{command}`"
        raise UsageError(
            nothing if command else "the recipe names no command, so its script is not known",
            "name the files or folders: hotlap patch train.py models/",
        )
    return list(_with_imports(script))


def _script(words: Sequence[str]) -> Path | None:
    """The first Python file of a command: a path, or a module behind `-m`."""
    for index, word in enumerate(words):
        if word == "-m" and index + 1 < len(words):
            found = _module(Path(), words[index + 1])
            if found is not None:
                return found
        if word.endswith(".py") and _here(Path(word)):
            return Path(word)
        if word.endswith(SUFFIX) and _here(Path(word)):
            return write_script(Path(word))
    shells = (w for w in words if w.endswith(".sh") and _here(Path(w)))
    return next((p for w in shells for line in Path(w).read_text("utf-8", "replace").splitlines()
                 if (p := _script(_words(line))) is not None), None)  # fmt: skip


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return []


def _here(path: Path) -> bool:
    return path.is_file() and path.resolve().is_relative_to(Path.cwd())


def _with_imports(script: Path) -> Iterator[Path]:
    """The script, then every file of here that it imports, and that those import."""
    roots = [script.parent, Path()]
    queue, seen = [script], {script.resolve()}
    while queue and len(seen) <= _LIMIT:
        path = queue.pop(0)
        yield path
        for found in _imported(path, roots):
            if found.resolve() not in seen and _here(found) and not _installed(found):
                seen.add(found.resolve())
                queue.append(found)


def _installed(path: Path) -> bool:
    return bool({"site-packages", "dist-packages"} & set(path.parts))


def _imported(path: Path, roots: Sequence[Path]) -> Iterator[Path]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names, where = [alias.name for alias in node.names], roots
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)]
            where = [path.parents[node.level - 1]] if 0 < node.level <= len(path.parents) else roots
        else:
            continue
        for root in where:
            yield from (found for name in names if (found := _module(root, name)) is not None)


def _module(root: Path, dotted: str) -> Path | None:
    """The file of a module below a folder; a package's `__main__` where it has one."""
    if not dotted:
        return None
    base = root.joinpath(*dotted.split("."))
    tries = (base.with_name(f"{base.name}.py"), base / "__main__.py", base / "__init__.py")
    return next((path for path in tries if path.is_file()), None)
