"""Which whole numbers a file passes to the classes that it makes objects of, for their files."""

import ast
from collections.abc import Iterator

from hotlap.source.names import Names
from hotlap.source.tree import Tree, defaults, opaque, text

Passed = dict[str, int | None]
_DEEPEST = 4


def passed(tree: Tree, names: Names) -> dict[str, list[Passed]]:
    """For each class made here, the arguments of each call: by keyword, or by position ("0", ...).

    None stands for a value that this file does not tell.
    """
    found: dict[str, list[Passed]] = {}
    for call in tree.calls:
        name = text(call.func).rpartition(".")[2]
        library = names.of(call.func).startswith(("torch.", "numpy.", "torchvision."))
        if not name[:1].isupper() or library or opaque(call):
            continue
        given = {str(i): integer(tree, node) for i, node in enumerate(call.args)}
        given |= {word.arg: integer(tree, word.value) for word in call.keywords if word.arg}
        if any(value is not None for value in given.values()):
            found.setdefault(name, []).append(given)
    return found


def integer(tree: Tree, node: ast.expr | None, depth: int = _DEEPEST) -> int | None:
    """A whole number that a file spells out: here, in its only assignment, as a default."""
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name) if depth:
            function = tree.function(node)
            default = defaults(function).get(name) if function is not None else None
            values = [*_assigned(tree, name, tree.scope(node)), *([default] if default else [])]
            if not values:
                values = list(_assigned(tree, name, tree.module))
        case ast.Attribute(value=ast.Name(id="self")) if depth:
            values = list(_of_self(tree, node))
        case _:
            return None
    return integer(tree, values[0], depth - 1) if len(values) == 1 else None


def _assigned(tree: Tree, name: str, scope: ast.AST) -> Iterator[ast.expr]:
    for assign in tree.every(ast.Assign):
        if any(text(t) == name for t in assign.targets) and tree.scope(assign) is scope:
            yield assign.value


def _of_self(tree: Tree, node: ast.Attribute) -> Iterator[ast.expr]:
    owner = tree.class_of(node)
    for assign in tree.every(ast.Assign):
        if tree.class_of(assign) is owner and any(text(t) == text(node) for t in assign.targets):
            yield assign.value
