"""What a loop does with its batches: copies that do not wait, and a prefetcher."""

import ast
from collections.abc import Iterator

from hotlap.source.patch.calls import add_argument
from hotlap.source.patch.draft import Draft
from hotlap.source.patch.imports import spelt
from hotlap.source.script_model import BatchLoop
from hotlap.source.tree import method, names_in, receiver


def async_copy(draft: Draft) -> None:
    """Let the copies of batches that a DataLoader collates go on while the program does."""
    seen: set[ast.Call] = set()
    for batch in (one for one in draft.script.batch_loops if one.certain):
        for call in moves(draft, batch):
            if call in seen:
                continue
            seen.add(call)
            if len(call.args) > 1 or any(k.arg in {"non_blocking", None} for k in call.keywords):
                draft.already = True
            else:
                add_argument(draft, call, "non_blocking", "True")
    place = next(iter(draft.script.backward_calls), None)
    draft.nothing_here(
        "no copy of a DataLoader's batch was found: pass non_blocking=True to .to(device) where a "
        "batch in pinned memory goes to the GPU",
        place,
    )


PREFETCHER = "hotlap.data.DevicePrefetcher"


def device_prefetch(draft: Draft) -> None:
    """Iterate `DevicePrefetcher(loader, device)` where the loop moves all that it is given."""
    for batch in (one for one in draft.script.batch_loops if one.certain):
        if _is_prefetched(draft, batch.source):
            draft.already = True
            continue
        calls = list(moves(draft, batch))
        if not calls:
            continue
        device = _device(calls)
        if device and _all_moved(draft, batch, calls) and _known_before(draft, batch, calls):
            name, loader = spelt(draft, PREFETCHER), ast.unparse(batch.source)
            draft.changes.code(batch.source, f"{name}({loader}, {device})")
        else:
            draft.by_hand(
                batch.loop,
                "not all of the batch is moved, and first of all: iterate "
                f"DevicePrefetcher({ast.unparse(batch.source)}, device) if nothing is read before",
            )
    place = next(iter(draft.script.backward_calls), None)
    draft.nothing_here(
        "no loop over a DataLoader that moves its batches was found: iterate "
        "hotlap.data.DevicePrefetcher(loader, device)",
        place,
    )


def _is_prefetched(draft: Draft, source: ast.expr) -> bool:
    if isinstance(source, ast.Call) and draft.source.names.of(source.func) == PREFETCHER:
        return True
    made = [
        n for n in draft.source.tree.nodes
        if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == ast.unparse(source)
    ]  # fmt: skip
    return any(
        isinstance(n.value, ast.Call) and draft.source.names.of(n.value.func) == PREFETCHER
        for n in made
    )


def _device(calls: list[ast.Call]) -> str:
    """The one device that all copies go to; empty if they differ."""
    devices = {'"cuda"' if (d := device_of(c)) is None else ast.unparse(d) for c in calls}
    return devices.pop() if len(devices) == 1 else ""


def _all_moved(draft: Draft, batch: BatchLoop, calls: list[ast.Call]) -> bool:
    """Whether every part of the batch is read only to be moved, or after it was moved."""
    moved = [receiver(c) for c in calls]
    inside = [n for s in batch.loop.body for n in ast.walk(s)]
    for name in batch.names:
        uses = [n for n in inside if isinstance(n, ast.Name) and n.id == name]
        first = min(uses, key=lambda n: (n.lineno, n.col_offset), default=None)
        if first is None:
            continue
        rebound = any(isinstance(n.ctx, ast.Store) for n in uses)
        loads = [n for n in uses if isinstance(n.ctx, ast.Load)]
        below = [any(draft.source.tree.inside(n, m) for m in moved if m is not None) for n in loads]
        if (rebound and not below[0]) or (not rebound and not all(below)):
            return False
    return all(root(m) in batch.names for m in moved)


def _known_before(draft: Draft, batch: BatchLoop, calls: list[ast.Call]) -> bool:
    """Whether the device's name is bound before the loop."""
    device = device_of(calls[0])
    inside = set().union(*(names_in(statement, ast.Store) for statement in batch.loop.body))
    return not names_in(device) & (inside | batch.names)


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
