"""Which definitions something goes backward from, by way of what is computed from them."""

import ast
from collections.abc import Iterator

from hotlap.source.flow import Definition
from hotlap.source.tree import receiver
from hotlap.source.values import Values

_BACKWARD = ("backward", "manual_backward", "grad")


def differentiated(values: Values) -> set[Definition]:
    """The definitions of the module that a `.backward()` reaches."""
    found: set[Definition] = set()
    waiting = list(_starts(values))
    while waiting:
        for node in ast.walk(waiting.pop()):
            if isinstance(node, ast.Name | ast.Attribute):
                fresh = [d for d in values.flow.every(node) if d not in found]
                found.update(fresh)
                waiting += [part for d in fresh for part in _behind(values, d)]
    return found


def _starts(values: Values) -> Iterator[ast.AST]:
    for call in (c for name in _BACKWARD for c in values.tree.methods.get(name, [])):
        yield from call.args
        owner = receiver(call)
        if owner is not None:
            yield owner


def _behind(values: Values, definition: Definition) -> Iterator[ast.AST]:
    """What a definition's value is computed from."""
    if definition.value is not None:
        yield definition.value
    if definition.source is not None:
        yield definition.source
    if isinstance(definition.target, ast.Name):
        for call in values.tree.methods.get("append", []):
            owner = receiver(call)
            if isinstance(owner, ast.Name) and definition in values.flow.reaching(owner):
                yield from call.args
