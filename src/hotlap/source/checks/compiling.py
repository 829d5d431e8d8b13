"""Where models are compiled."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import every_step, unconditional
from hotlap.source.module import Source
from hotlap.source.tree import text


def compiled_in_loop(source: Source, _: Technique) -> Iterator[ast.AST]:
    """The same model compiled anew at each step or epoch."""
    for call in source.calls("torch.compile"):
        if not call.args or not unconditional(source, call):
            continue
        if (every_step(source, call) or source.loops.in_epoch(call)) and _same(source, call):
            yield call


def _same(source: Source, call: ast.Call) -> bool:
    """Whether what is compiled, and how, comes from outside of the loop."""
    loop = next(source.tree.loops(call), None) or source.tree.function(call)
    if loop is None or not text(call.args[0]):
        return False
    names = [
        node
        for part in (*call.args, *(entry.value for entry in call.keywords))
        for node in ast.walk(part)
        if isinstance(node, ast.Name | ast.Attribute) and text(node)
    ]
    inside = [
        definition
        for node in names
        for definition in source.values.flow.reaching(node)
        if not isinstance(definition.target, ast.arg)
        and source.tree.inside(definition.target, loop)
        and definition.value is not call
    ]
    return not inside
