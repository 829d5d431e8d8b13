"""Gradients summed over several batches."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import (
    argument,
    body_of,
    calls_within,
    is_constant,
    made_by,
    name_of,
    place,
)
from hotlap.source.conditional import has_modulo
from hotlap.source.kinds import LOADER, OPTIMIZER
from hotlap.source.module import Source
from hotlap.source.tree import Loop, method, receiver, text

_DIVIDES = frozenset({"div", "div_", "mul", "mul_", "true_divide"})
_OTHERS = ("accelerator", "fabric", "engine", "manager", "booster")


def undivided_accumulation(source: Source, _: Technique) -> Iterator[ast.AST]:
    """The loss of each batch at full weight: the sum grows with the number of batches."""
    for branch, backward in accumulations(source):
        loop = next(source.tree.loops(branch), None)
        if loop is not None and not _divided(source, backward, loop):
            yield backward


def dropped_last_group(source: Source, _: Technique) -> Iterator[ast.AST]:
    """Batches after the last whole group get no step of their own."""
    for branch, _backward in accumulations(source):
        loop = next(source.tree.loops(branch), None)
        if not isinstance(loop, ast.For) or not _ends(source, loop):
            continue
        if not _looks_for_the_end(branch.test) and not _steps_after(source, loop):
            yield branch


def accumulations(source: Source) -> Iterator[tuple[ast.If, ast.Call]]:
    """`if i % k == 0:` with the step and `zero_grad`, and the backward before it."""
    for branch in source.tree.every(ast.If):
        if not has_modulo(branch.test) or not _steps(source, branch):
            continue
        loop = next(source.tree.loops(branch), None)
        backward = _backward(source, loop, branch) if loop is not None else None
        if loop is not None and backward is not None and not _cleared(source, loop, branch):
            yield branch, backward


def _steps(source: Source, branch: ast.If) -> bool:
    """Whether the branch steps an optimizer (itself or by a scaler) and clears its gradients."""
    names = {method(n) for part in branch.body for n in ast.walk(part)}
    stepped = any(
        method(n) == "step" and _is_optimizer(source, n)
        for part in branch.body
        for n in ast.walk(part)
        if isinstance(n, ast.Call)
    )
    return stepped and "zero_grad" in names and "backward" not in names


def _is_optimizer(source: Source, call: ast.Call) -> bool:
    owner = receiver(call)
    of_scaler = len(call.args) == 1 and "scaler" in name_of(owner).lower()
    return of_scaler or (owner is not None and source.values.are(owner, OPTIMIZER))


def _backward(source: Source, loop: Loop, branch: ast.If) -> ast.Call | None:
    """The one plain backward of each round, above the branch."""
    found = [
        call
        for call in source.tree.methods.get("backward", [])
        if next(source.tree.loops(call), None) is loop and place(call) < place(branch)
    ]
    if len(found) != 1 or any(word in ast.unparse(found[0].func).lower() for word in _OTHERS):
        return None
    under = [b for b in source.tree.blocks(found[0]) if isinstance(b[0], ast.If)]
    inside = [b for b in under if source.tree.inside(b[0], loop)]
    return found[0] if not inside and not found[0].keywords else None


def _cleared(source: Source, loop: Loop, branch: ast.If) -> bool:
    """Whether gradients are cleared, or steps made, outside of the branch at each round too."""
    return any(
        method(node) in {"zero_grad", "no_sync", "accumulate"}
        or (method(node) == "step" and _is_optimizer(source, node))
        for node in ast.walk(loop)
        if isinstance(node, ast.Call)
        and not source.tree.inside(node, branch)
        and not any(isinstance(h, ast.If) and source.tree.inside(h, loop)
                    for h, _ in source.tree.blocks(node))
    )  # fmt: skip


def _divided(source: Source, backward: ast.Call, loop: Loop) -> bool:
    """Whether anything that the loss comes from, or the gradients, is divided or weighted."""
    if _scaled_later(source, loop):
        return True
    waiting: list[ast.AST] = [backward.func]
    seen: set[ast.AST] = set()
    while waiting:
        node = waiting.pop()
        for part in ast.walk(node):
            if part in seen:
                continue
            seen.add(part)
            if _weights(part) or _sums(source, part):
                return True
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                reaching = source.values.flow.reaching(part)
                if any(isinstance(source.tree.parent(d.target), ast.AugAssign) for d in reaching):
                    return True
                waiting += [d.value for d in reaching if d.value is not None]
    return False


def _weights(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Div | ast.Mult)
    name = method(node)
    return name in _DIVIDES or (
        isinstance(node, ast.Call) and any(k.arg == "num_items_in_batch" for k in node.keywords)
    )


def _sums(source: Source, node: ast.AST) -> bool:
    """A call of another's function (it may divide), or of a criterion that sums."""
    if not isinstance(node, ast.Call):
        return False
    if is_constant(argument(node, "reduction", -1), "sum") or method(node) == "sum":
        return True
    if source.values.local(node) is not None:
        return True
    return any(
        isinstance(call, ast.Call) and is_constant(argument(call, "reduction", -1), "sum")
        for call in made_by(source, node.func)
    )


def _scaled_later(source: Source, loop: Loop) -> bool:
    """`p.grad /= k` and the like."""
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign) and "grad" in ast.unparse(node.target):
            return True
        if method(node) in _DIVIDES and "grad" in name_of(receiver(node)):
            return True
    return False


def _ends(source: Source, loop: ast.For) -> bool:
    """Whether the loop runs over data that end, whose number nobody rounds."""
    heads = [node for node in ast.walk(loop.iter) if isinstance(node, ast.Name | ast.Attribute)]
    return any(source.values.are(node, LOADER) or "loader" in text(node).lower() for node in heads)


def _looks_for_the_end(test: ast.expr) -> bool:
    return any(isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or)
               for node in ast.walk(test))  # fmt: skip


def _steps_after(source: Source, loop: Loop) -> bool:
    """A step after the loop, or in its `else`: for the rest."""
    scope = body_of(source, loop)
    end = (loop.end_lineno or 0, 0)
    after = [call for call in calls_within(source, scope) if place(call) > end]
    inside = [n for part in loop.orelse for n in ast.walk(part) if isinstance(n, ast.Call)]
    return any(method(c) == "step" and _is_optimizer(source, c) for c in [*after, *inside])
