"""Gradients summed over several batches."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

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
from hotlap.source.conditional import counts_rounds
from hotlap.source.kinds import LOADER, OPTIMIZER
from hotlap.source.module import Source
from hotlap.source.tree import Loop, method, receiver, text

_DIVIDES = frozenset({"div", "div_", "mul", "mul_", "true_divide"})
_OTHERS = ("accelerator", "fabric", "engine", "manager", "booster")


@dataclass(frozen=True)
class Accumulation:
    """A step at every k-th round of a loop alone: the `if` that counts, and the one `backward`.

    `whole_groups`: nothing but the count decides, so that the last rounds may get no step.
    """

    branch: ast.If
    loop: Loop
    backward: ast.Call
    whole_groups: bool


def undivided_accumulation(source: Source, _: Technique) -> Iterator[ast.AST]:
    """The loss of each batch at full weight: the sum grows with the number of batches."""
    for found in accumulations(source):
        if not _divided(source, found.backward, found.loop):
            yield found.backward


def dropped_last_group(source: Source, _: Technique) -> Iterator[ast.AST]:
    """Batches after the last whole group get no step of their own."""
    for found in accumulations(source):
        if not isinstance(found.loop, ast.For) or not _ends(source, found.loop):
            continue
        if found.whole_groups and not _steps_after(source, found.loop):
            yield found.branch


def accumulations(source: Source) -> Iterator[Accumulation]:
    """Loops that step and clear the gradients at every k-th round, behind one backward."""
    for branch in source.tree.every(ast.If):
        loop = next(source.tree.loops(branch), None)
        if loop is None or not counts_rounds(source.tree, branch.test):
            continue
        group = _group(source, branch)
        backward = _backward(source, loop, branch) if _steps(source, group) else None
        if backward is not None and not _cleared(source, loop, group):
            yield Accumulation(branch, loop, backward, _only_counts(source, branch.test))


def _group(source: Source, branch: ast.If) -> tuple[ast.stmt, ...]:
    """What runs at every k-th round: the branch, or what follows `if i % k != 0: continue`."""
    if isinstance(branch.body[-1], ast.Continue) and not branch.orelse:
        siblings = source.tree.siblings(branch)
        return tuple(siblings[siblings.index(branch) + 1 :])
    return tuple(branch.body)


def _only_counts(source: Source, test: ast.expr) -> bool:
    """Whether nothing but the count decides: neither here nor where a flag is set."""
    flags = (node for node in ast.walk(test) if isinstance(node, ast.Name))
    set_to = (d.value for flag in flags for d in source.values.flow.reaching(flag))
    values = [test, *(value for value in set_to if value is not None)]
    return not any(isinstance(node, ast.BoolOp) for value in values for node in ast.walk(value))


def _steps(source: Source, group: tuple[ast.stmt, ...]) -> bool:
    """Whether it steps an optimizer (itself or by a scaler) and clears its gradients."""
    names = {method(n) for part in group for n in ast.walk(part)}
    stepped = any(
        method(n) == "step" and _is_optimizer(source, n)
        for part in group
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


def _cleared(source: Source, loop: Loop, group: tuple[ast.stmt, ...]) -> bool:
    """Whether gradients are cleared, or steps made, outside of the group at each round too."""
    return any(
        method(node) in {"zero_grad", "no_sync", "accumulate"}
        or (method(node) == "step" and _is_optimizer(source, node))
        for node in ast.walk(loop)
        if isinstance(node, ast.Call)
        and not any(source.tree.inside(node, part) for part in group)
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


def _steps_after(source: Source, loop: Loop) -> bool:
    """A step after the loop, or in its `else`: for the rest."""
    scope = body_of(source, loop)
    end = (loop.end_lineno or 0, 0)
    after = [call for call in calls_within(source, scope) if place(call) > end]
    inside = [n for part in loop.orelse for n in ast.walk(part) if isinstance(n, ast.Call)]
    return any(method(c) == "step" and _is_optimizer(source, c) for c in [*after, *inside])
