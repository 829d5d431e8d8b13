"""Several backward passes through one graph, where one of the sum gives the same gradients."""

import ast
import re
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.retain_graph import retains
from hotlap.source.found import Spread
from hotlap.source.module import Source
from hotlap.source.tree import names_in

_BACKWARD = ("backward", "manual_backward")
_BETWEEN = re.compile("grad|step|update")


def backward_each(source: Source, _: Technique) -> Iterator[Spread]:
    """`a.backward(retain_graph=True)`, `b.backward()`, and nobody asks for gradients between."""
    calls = {
        source.tree.statement(call): call
        for name in _BACKWARD
        for call in source.tree.methods.get(name, [])
    }
    seen: set[ast.stmt] = set()
    for statement, call in calls.items():
        if statement in seen or not retains(call):
            continue
        run = list(_run(source, statement, calls))
        seen.update(run)
        if len(run) > 1:
            yield Spread(calls[run[-1]], calls[run[0]])
        elif _is_whole_round(source, statement):
            yield Spread(call, call)


def _run(source: Source, first: ast.stmt, calls: dict[ast.stmt, ast.Call]) -> Iterator[ast.stmt]:
    """The backward passes of a block from one on, of which all but the last keep the graph."""
    block = source.tree.siblings(first)
    yield first
    keeps = True
    for statement in block[block.index(first) + 1 :]:
        if statement in calls and keeps:
            yield statement
            keeps = retains(calls[statement])
        elif not keeps or any(map(_looks, ast.walk(statement))):
            return


def _looks(node: ast.AST) -> bool:
    """Whether gradients may be read, changed or used here."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return _BETWEEN.search(name) is not None
    return False


def _is_whole_round(source: Source, statement: ast.stmt) -> bool:
    """`for loss in losses: loss.backward(retain_graph=True)`."""
    loop = source.tree.parent(statement)
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
        return False
    return loop.body == [statement] and loop.target.id in names_in(statement)
