"""The line of the user's that makes an object of a class which is not theirs."""

import ast
from collections.abc import Iterable
from pathlib import Path


def made_at(paths: Iterable[str], kind: str, folder: Path) -> str:
    """`file:line` of the first call of `kind` in the files; empty if there is none."""
    for path in map(Path, sorted(paths)):
        if line := _line(path, kind):
            return f"{path.relative_to(folder) if path.is_relative_to(folder) else path}:{line}"
    return ""


def _line(path: Path, kind: str) -> int:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return 0
    lines = [
        node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _is(node, kind)
    ]
    return min(lines, default=0)


def _is(call: ast.Call, kind: str) -> bool:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == kind
    return False
