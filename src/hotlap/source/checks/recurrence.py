"""Recurrences that run step by step in Python."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.samples import forwards
from hotlap.source.module import Source
from hotlap.source.tree import method, names_in

_SLICES = frozenset({"unbind", "split", "chunk"})


def recurrence_by_hand(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`for t in range(...): state = self.cell(x[:, t], state)` in the forward of a model."""
    for function in forwards(source):
        for loop in ast.walk(function):
            if isinstance(loop, ast.For) and any(_steps(loop, part) for part in loop.body):
                yield loop


def _steps(loop: ast.For, part: ast.stmt) -> bool:
    """Whether a statement takes a state one step further, with the input of that step."""
    if not isinstance(part, ast.Assign) or not isinstance(part.value, ast.Call):
        return False
    call, counted = part.value, names_in(loop.target)
    given = [*call.args, *(one.value for one in call.keywords)]
    one_layer = isinstance(call.func, ast.Attribute) and not counted & names_in(call.func)
    state = set().union(*map(names_in, part.targets)) & set().union(*map(names_in, given))
    sliced = method(loop.iter) in _SLICES
    picked = any(
        isinstance(node, ast.Name if sliced else ast.Subscript) and counted & names_in(node)
        for one in given
        for node in ast.walk(one)
    )
    return one_layer and bool(state - counted) and picked
