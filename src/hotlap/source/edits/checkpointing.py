"""`torch.utils.checkpoint` around the repeated blocks of a model's forward."""

import ast
from collections.abc import Iterator

from hotlap.source.patch.draft import Draft
from hotlap.source.patch.imports import spelt
from hotlap.source.patch.predicates import class_named

CHECKPOINT = "torch.utils.checkpoint.checkpoint"
_NORMS = frozenset(f"torch.nn.BatchNorm{d}d" for d in (1, 2, 3)) | {"torch.nn.SyncBatchNorm"}
_WISH = "write checkpoint(block, x, use_reentrant=False), from torch.utils.checkpoint"


def activation_checkpoint(draft: Draft) -> None:
    """Write `x = checkpoint(block, x, use_reentrant=False)` in each loop over blocks."""
    for loop, call in _block_calls(draft):
        if draft.source.names.of(call.func).endswith("checkpoint.checkpoint"):
            draft.already = True
        elif _has_batch_norm(draft, loop):
            draft.by_hand(
                call, "the blocks hold BatchNorm, whose statistics would be updated twice: "
                f"keep it out of what is recomputed, and {_WISH}"
            )  # fmt: skip
        else:
            block = ast.unparse(call.func)
            given = [ast.unparse(a) for a in call.args]
            given += [f"{k.arg}={ast.unparse(k.value)}" for k in call.keywords]
            inner = ", ".join([block, *given, "use_reentrant=False"])
            draft.changes.code(call, f"{spelt(draft, CHECKPOINT)}({inner})")
    model = draft.script.model
    draft.nothing_here(
        "no loop over the model's blocks was found: where the model calls its largest parts, "
        f"{_WISH}; for nn.Sequential there is checkpoint_sequential",
        model,
    )


def _block_calls(draft: Draft) -> Iterator[tuple[ast.For, ast.Call]]:
    """`x = block(x)` in `for block in self.blocks`, where that is a list of modules."""
    for loop in (n for n in draft.source.tree.nodes if isinstance(n, ast.For)):
        if not _over_modules(draft, loop) or not isinstance(loop.target, ast.Name):
            continue
        for node in ast.walk(loop):
            if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
                continue
            if _runs(draft, node, loop.target.id):
                yield loop, node


def _runs(draft: Draft, call: ast.Call, name: str) -> bool:
    """`block(...)`, or `checkpoint(block, ...)` already."""
    if isinstance(call.func, ast.Name) and call.func.id == name:
        return bool(call.args)
    first = call.args[0] if call.args else None
    done = draft.source.names.of(call.func).endswith("checkpoint.checkpoint")
    return done and isinstance(first, ast.Name) and first.id == name


def _over_modules(draft: Draft, loop: ast.For) -> bool:
    function = draft.source.tree.function(loop)
    if function is None or function.name != "forward":
        return False
    made = draft.script.origins.only(loop.iter)
    if not isinstance(made, ast.Call):
        return False
    return draft.source.names.of(made.func) in {"torch.nn.ModuleList", "torch.nn.Sequential"}


def _has_batch_norm(draft: Draft, loop: ast.For) -> bool:
    """Whether a class that the list of blocks names, or the list itself, makes BatchNorm."""
    made = draft.script.origins.only(loop.iter)
    if made is None:
        return False
    for node in ast.walk(made):
        if not isinstance(node, ast.Call):
            continue
        dotted = draft.source.names.of(node.func)
        found = class_named(draft, dotted or getattr(node.func, "id", ""))
        if dotted in _NORMS:
            return True
        if found is not None and any(
            isinstance(n, ast.Call) and found[0].names.of(n.func) in _NORMS
            for n in ast.walk(found[1])
        ):
            return True
    return False
