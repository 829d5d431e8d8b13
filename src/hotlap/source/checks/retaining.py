"""Graphs kept alive from step to step."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.flow import Definition
from hotlap.source.found import Found, Spread
from hotlap.source.kinds import GRAPH, MODEL
from hotlap.source.loops import BACKWARD
from hotlap.source.module import Source
from hotlap.source.tree import keyword, method, names_in, receiver, text

_ADDS = ("append", "extend", "appendleft", "insert", "add")
Variable = ast.Name | ast.Attribute


FREED = "its nodes alone: backward() has freed the activations"


def graph_summed(source: Source, _: Technique) -> Iterator[Found]:
    """`total += loss`, where total is never gone backward from."""
    for target, value, statement in _sums(source):
        if source.values.are(value, GRAPH) and _outlives(source, target, statement):
            yield _kept(source, value, statement)


def graph_kept(source: Source, _: Technique) -> Iterator[Found]:
    """`losses.append(loss)`, `outputs[i] = out`, into what outlives the step."""
    for holder, value, node in _stores(source):
        if source.values.are(value, GRAPH) and _outlives(source, holder, node):
            yield _kept(source, value, node)


def _kept(source: Source, value: ast.expr, node: ast.AST) -> Found:
    """A hint where the value's own backward, in the same body, leaves nothing but graph nodes."""
    parts = list(ast.walk(value))
    calls = [receiver(part) for part in parts if isinstance(part, ast.Call)]
    if any(owner is None or not source.values.are(owner, GRAPH) for owner in calls):
        return node
    held = [part for part in parts if isinstance(part, Variable) and source.values.are(part, GRAPH)]
    known = [part for part in held if source.values.flow.reaching(part)]
    if known and all(_freed(source, part, node) for part in known):
        return Spread(node, node, FREED, hint=True)
    return node


def _freed(source: Source, variable: Variable, node: ast.AST) -> bool:
    """Whether a backward pass of the same body, without retain_graph, goes through a variable."""
    function = source.tree.function(node)
    if function is not None and function.name == "training_step":
        returned = (
            r.value for r in source.tree.every(ast.Return) if source.tree.inside(r, function)
        )
        return any(text(variable) in names_in(value) for value in returned)
    body = next(source.tree.loops(node), None) or function
    calls = [c for name in BACKWARD for c in source.tree.methods.get(name, [])]
    plain = [call for call in calls if keyword(call, "retain_graph") is None]
    own = {text(owner) for call in calls if call not in plain and (owner := receiver(call))}
    if text(variable) in own:  # another's backward frees no more than what both share
        return False
    if not any(body is None or source.tree.inside(call, body) for call in plain):
        return False
    return source.loops.differentiated.issuperset(source.values.flow.reaching(variable))


def _sums(source: Source) -> Iterator[tuple[Variable, ast.expr, ast.stmt]]:
    for added in source.tree.every(ast.AugAssign):
        summed = isinstance(added.op, ast.Add | ast.Sub) and not isinstance(added.value, ast.List)
        if summed and isinstance(added.target, Variable):
            yield added.target, added.value, added
    for assign in source.tree.every(ast.Assign):
        target, value = assign.targets[0], assign.value
        if isinstance(target, Variable) and isinstance(value, ast.BinOp) and _sum(value, target):
            mine = text(value.left) == text(target)
            yield target, value.right if mine else value.left, assign


def _stores(source: Source) -> Iterator[tuple[Variable, ast.expr, ast.AST]]:
    for call in (c for name in _ADDS for c in source.tree.methods.get(name, [])):
        holder = _holder(receiver(call))
        if holder is not None and call.args:
            yield holder, call.args[-1], call
    for assign in source.tree.every(ast.Assign):
        for target in assign.targets:
            holder = _holder(target) if isinstance(target, ast.Subscript) else None
            if holder is not None:
                yield holder, assign.value, assign
    for added in source.tree.every(ast.AugAssign):
        holder = _holder(added.target)
        listed = isinstance(added.value, ast.List) or isinstance(added.target, ast.Subscript)
        if holder is not None and listed:
            yield holder, added.value, added


def _holder(node: ast.AST | None) -> Variable | None:
    """The variable below `x[i]`, `x.setdefault(k, [])`, `x`."""
    while isinstance(node, ast.Subscript) or (node and method(node) in {"setdefault", "get"}):
        node = node.value if isinstance(node, ast.Subscript) else receiver(node)
    return node if isinstance(node, Variable) and text(node) else None


def _outlives(source: Source, variable: Variable, node: ast.AST) -> bool:
    """Whether what a variable holds stays after the step, and is not gone backward from."""
    step = source.loops.training_step(node)
    if step is None or source.loops.without_grad(node):
        return False
    definitions = source.values.flow.every(variable)
    if not text(variable).startswith("self.") and not definitions:
        return True
    made = [d for d in definitions if not isinstance(source.tree.parent(d.target), ast.AugAssign)]
    fresh = [d for d in made if not _sum(d.value, variable)]
    inside = [d for d in fresh if source.tree.inside(d.target, step)]
    if inside or _emptied(source, variable, step) or any(_reset(source, d, node) for d in fresh):
        return False
    return not any(definition in source.loops.differentiated for definition in definitions)


def _reset(source: Source, definition: Definition, node: ast.AST) -> bool:
    """Whether a model's forward starts an attribute afresh, in another method that it runs."""
    function = source.tree.function(definition.target)
    owner = source.tree.class_of(node)
    if function is None or owner is None or source.values.class_kind(owner) != MODEL:
        return False
    started = function.name != "__init__" and source.loops.step_of(definition.target) is not None
    return started and source.tree.class_of(definition.target) is owner


def _sum(value: ast.expr | None, variable: Variable) -> bool:
    """`total = total + loss` is not a fresh start."""
    return isinstance(value, ast.BinOp) and text(variable) in (text(value.left), text(value.right))


def _emptied(source: Source, variable: Variable, step: ast.AST) -> bool:
    """`x.clear()` or `del x[:]` in the step."""
    name = text(variable)
    cleared = [c for c in source.tree.methods.get("clear", []) if text(receiver(c) or c) == name]
    deleted = [
        node
        for node in source.tree.every(ast.Delete)
        if any(text(_holder(target) or target) == name for target in node.targets)
    ]
    return any(source.loops.step_of(node) is not None for node in (*cleared, *deleted))
