"""Layers of one kind that read the same input, one after another."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.samples import forwards
from hotlap.source.module import Source
from hotlap.source.tree import names_in, text

_LISTS = frozenset({"torch.nn.ModuleList", "list"})


def layers_one_by_one(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`[head(x) for head in self.heads]` in a model whose `self.heads` are made alike."""
    for function in forwards(source):
        owner = source.tree.class_of(function)
        alike = _made_alike(source, owner) if owner is not None else set()
        for node in ast.walk(function) if alike else ():
            if isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
                part = node.generators[0]
                if not part.ifs and _each(part.iter, part.target, node.elt, alike):
                    yield node
            elif isinstance(node, ast.For) and _body(node, alike):
                yield node


def _made_alike(source: Source, owner: ast.ClassDef) -> set[str]:
    """The attributes that hold layers which are all made by the same call: `self.heads`."""
    found = set()
    for node in ast.walk(owner):
        if not isinstance(node, ast.Assign):
            continue
        made = node.value
        if isinstance(made, ast.Call) and source.names.of(made.func) in _LISTS:
            made = made.args[0] if len(made.args) == 1 else made
        if isinstance(made, ast.ListComp | ast.GeneratorExp) and isinstance(made.elt, ast.Call):
            counted = set().union(*(names_in(part.target) for part in made.generators))
            if not counted & names_in(made.elt):
                found |= {text(target) for target in node.targets}
    return {name for name in found if name.startswith("self.")}


def _each(head: ast.expr, target: ast.expr, one: ast.AST, alike: set[str]) -> bool:
    """Whether `one` calls each of the layers that a loop runs over with what is no part of it."""
    return any(
        isinstance(call, ast.Call) and _same_input(call, head, target, alike)
        for call in ast.walk(one)
    )


def _same_input(call: ast.Call, head: ast.expr, target: ast.expr, alike: set[str]) -> bool:
    counted = names_in(target)
    given = [*call.args, *(word.value for word in call.keywords)]
    if not given or any(counted & names_in(one) for one in given):
        return False
    match call.func:
        case ast.Name(id=name):
            return name in counted and _runs_over(head) in alike
        case ast.Subscript(value=layers, slice=ast.Name(id=name)):
            return name in counted and text(layers) in alike
    return False


def _runs_over(head: ast.expr) -> str:
    """`self.heads`, also of `enumerate(self.heads)`."""
    match head:
        case ast.Call(func=ast.Name(id="enumerate"), args=[layers, *_]):
            return text(layers)
    return text(head)


def _body(loop: ast.For, alike: set[str]) -> bool:
    """Whether a loop's statements do so, and none of them changes what the layers read."""
    changed = {
        node.id
        for part in loop.body
        for node in ast.walk(part)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return any(
        isinstance(call, ast.Call)
        and _same_input(call, loop.iter, loop.target, alike)
        and not any(changed & names_in(one) for one in (*call.args, *call.keywords))
        for part in loop.body
        for call in ast.walk(part)
    )
