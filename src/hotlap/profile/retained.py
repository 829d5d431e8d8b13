"""The line that keeps a graph alive: where a variable that holds it is bound or appended to."""

import ast
from collections.abc import Iterator
from pathlib import Path

from hotlap.core.protocol import Holder
from hotlap.profile.sources import parsed

ADDING = {"append", "appendleft", "extend", "insert", "add", "update", "setdefault"}
LOOPS = (ast.For, ast.AsyncFor, ast.While)


def binding(path: Path, holder: Holder) -> int:
    """The line of source that makes a variable hold more; 0 if there is none."""
    tree = parsed(path)
    scope = _function(tree, holder.function) or tree
    found = sorted(_additions(scope, holder)) or sorted(_additions(tree, holder))
    return found[0][1] if found else _creation(scope, holder)


def _function(tree: ast.Module, first: int) -> ast.AST | None:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]
            if min(lines) == first:
                return node
    return None


def _additions(scope: ast.AST, holder: Holder) -> Iterator[tuple[bool, int]]:
    """The lines that add to the variable; those in a loop sort first."""
    looped = {
        id(inner) for node in ast.walk(scope) if isinstance(node, LOOPS) for inner in ast.walk(node)
    }
    for node in ast.walk(scope):
        if _adds(node, holder):
            yield id(node) not in looped, getattr(node, "lineno", 0)


def _adds(node: ast.AST, holder: Holder) -> bool:
    match node:
        case ast.AugAssign(target=target):
            return _names(target, holder)
        case ast.Call(func=ast.Attribute(value=owner, attr=method)):
            return method in ADDING and _names(owner, holder)
        case ast.Assign(targets=targets, value=value):
            entry = any(isinstance(t, ast.Subscript) and _names(t.value, holder) for t in targets)
            renewed = any(_names(target, holder) for target in targets)
            return entry or (renewed and any(_names(part, holder) for part in ast.walk(value)))
    return False


def _names(node: ast.AST, holder: Holder) -> bool:
    """Whether an expression is the variable, or part of what it holds."""
    if isinstance(node, ast.Subscript):
        return _names(node.value, holder)
    if holder.kind == "attribute":
        return isinstance(node, ast.Attribute) and node.attr == holder.name
    if isinstance(node, ast.Attribute):
        return _names(node.value, holder)
    return isinstance(node, ast.Name) and node.id == holder.name


def _creation(scope: ast.AST, holder: Holder) -> int:
    lines = [
        node.lineno
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign) and any(_names(target, holder) for target in node.targets)
    ]
    return min(lines, default=0)
