"""What a file passes to functions and classes, for the files that these stand in.

Whole numbers, to the classes that it makes objects of; and models wrapped for several ranks, to
whatever takes them.
"""

import ast
from collections.abc import Iterator

from hotlap.source.names import Names
from hotlap.source.tree import FunctionNode, Tree, defaults, opaque, text

Passed = dict[str, int | None]
Edge = tuple[str, str]
"""From one *slot* to another: what the first holds, the second holds too.

A slot is `DDP` (a wrapped model), a parameter `function(name)`, an argument of a call `function(0)`
or `function(=name)`, what a function returns `function()`, or an attribute `Class.name`.
"""
DDP = "DDP"
_DDP = "torch.nn.parallel.DistributedDataParallel"
_LIBRARIES = ("torch.", "numpy.", "torchvision.")
_DEEPEST = 4


def passed(tree: Tree, names: Names) -> dict[str, list[Passed]]:
    """For each class made here, the arguments of each call: by keyword, or by position ("0", ...).

    None stands for a value that this file does not tell.
    """
    found: dict[str, list[Passed]] = {}
    for call in tree.calls:
        name = text(call.func).rpartition(".")[2]
        library = names.of(call.func).startswith(_LIBRARIES)
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


def edges(tree: Tree, names: Names) -> list[Edge]:
    """Where the values of this file's variables go, as far as plain names show it."""
    found = {
        (f"{owner}({where})", f"{owner}({name})")
        for function in tree.functions
        for owner in [_owner(tree, function)]
        for i, name in enumerate(_asked(function))
        for where in (i, f"={name}")
    }
    made = _made(tree, names)
    for call in tree.calls:
        callee = text(call.func).rpartition(".")[2]
        if not callee or names.of(call.func).startswith(_LIBRARIES):
            continue
        given = [(str(i), node) for i, node in enumerate(call.args)]
        given += [(f"={word.arg}", word.value) for word in call.keywords if word.arg]
        for where, node in given:
            found |= {(slot, f"{callee}({where})") for slot in _slots(tree, names, node, made)}
    for target, value in _stored(tree):
        found |= {(slot, target) for slot in _slots(tree, names, value, made)}
    return sorted(found)


def slot(tree: Tree, node: ast.AST) -> str:
    """The slot that a name or `self.x` stands for; empty where it is a local variable."""
    owner = tree.class_of(node)
    if isinstance(node, ast.Attribute) and text(node.value) == "self" and owner is not None:
        return f"{owner.name}.{node.attr}"
    if isinstance(node, ast.Name):
        for scope in tree.scopes(node):
            if isinstance(scope, FunctionNode) and node.id in _asked(scope):
                return f"{_owner(tree, scope)}({node.id})"
    return ""


def _slots(
    tree: Tree, names: Names, node: ast.expr, made: dict[tuple[ast.AST, str], set[str]]
) -> set[str]:
    """Every slot whose value an expression may have."""
    if isinstance(node, ast.Call):
        return {_result(names, node)} - {""}
    if not isinstance(node, ast.Name):
        return {slot(tree, node)} - {""}
    local = next((made[s, node.id] for s in tree.scopes(node) if (s, node.id) in made), set())
    return (local | {slot(tree, node)}) - {""}


def _made(tree: Tree, names: Names) -> dict[tuple[ast.AST, str], set[str]]:
    """What the variables of each scope get from calls, by scope and name."""
    found: dict[tuple[ast.AST, str], set[str]] = {}
    for assign in tree.every(ast.Assign):
        result = _result(names, assign.value) if isinstance(assign.value, ast.Call) else ""
        for target in assign.targets if result else []:
            if isinstance(target, ast.Name):
                found.setdefault((tree.scope(assign), target.id), set()).add(result)
    return found


def _result(names: Names, call: ast.Call) -> str:
    """The slot of what a call returns."""
    dotted = names.of(call.func)
    if dotted == _DDP:
        return DDP
    last = text(call.func).rpartition(".")[2]
    return f"{last}()" if last and not dotted.startswith(_LIBRARIES) else ""


def _stored(tree: Tree) -> Iterator[tuple[str, ast.expr]]:
    """The attributes that are set, and what functions return, with the values."""
    for assign in tree.every(ast.Assign):
        for target in assign.targets:
            if isinstance(target, ast.Attribute) and (held := slot(tree, target)):
                yield held, assign.value
    for node in tree.every(ast.Return):
        function = tree.function(node)
        if node.value is not None and function is not None:
            yield f"{function.name}()", node.value


def _owner(tree: Tree, function: FunctionNode) -> str:
    """What a call of the function names: itself, or the class that it is the `__init__` of."""
    owner = tree.class_of(function) if function.name == "__init__" else None
    return owner.name if owner is not None else function.name


def _asked(function: FunctionNode) -> list[str]:
    """The names of the parameters that calls give."""
    arguments = function.args
    found = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return found[1:] if found[:1] in (["self"], ["cls"]) else found
