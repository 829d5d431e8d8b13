"""Which parts of a batch a loop moves to a device, and by which calls."""

import ast
from collections.abc import Iterator

from hotlap.source.patch.draft import Draft
from hotlap.source.script_model import BatchLoop
from hotlap.source.tree import method, receiver


def moves(draft: Draft, batch: BatchLoop) -> Iterator[ast.Call]:
    """The `.to(device)` and `.cuda()` calls on a batch or its parts, in the loop's body."""
    for statement in batch.loop.body:
        for node in ast.walk(statement):
            own = root(receiver(node)) in batch.names
            if own and isinstance(node, ast.Call) and _is_move(draft, node):
                yield node


def root(node: ast.AST | None) -> str:
    """The name that an item or attribute belongs to: `batch` of `batch["x"][0]`."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def device_of(call: ast.Call) -> ast.expr | None:
    """The device that a call moves to; None for `.cuda()` without one."""
    named = [k.value for k in call.keywords if k.arg == "device"]
    return next(iter([*call.args, *named]), None)


def _is_move(draft: Draft, call: ast.Call) -> bool:
    """A copy to another device, as far as source tells: not `.to("cpu")`, not `.to(dtype)`."""
    if method(call) == "cuda":
        return True
    target = device_of(call)
    if method(call) != "to" or target is None or draft.literal(target) == ("cpu",):
        return False
    return not draft.source.names.of(target).startswith("torch.")
