"""A communication hook, right behind the line that wraps the model in DDP."""

import ast

from hotlap.source.patch.draft import Draft
from hotlap.source.patch.imports import spelt

DDP = "torch.nn.parallel.DistributedDataParallel"
HOOK = "hotlap.parallel.hooks.narrowed"


def compressed(draft: Draft) -> None:
    """Write `model.register_comm_hook(None, narrowed(torch.bfloat16))`."""
    if draft.source.tree.methods.get("register_comm_hook"):
        draft.already = True
        return
    found = draft.source.calls(DDP)
    wish = f"register_comm_hook(None, narrowed(torch.{draft.values['dtype']})), from {HOOK}"
    if not found:
        draft.nothing_here(f"on the DistributedDataParallel model: .{wish}")
    for call in found:
        _register(draft, call, wish)


def _register(draft: Draft, call: ast.Call, wish: str) -> None:
    statement = draft.source.tree.statement(call)
    if (
        not isinstance(statement, ast.Assign)
        or statement.value is not call
        or len(statement.targets) != 1
    ):
        draft.by_hand(call, f"the model is not assigned plainly: .{wish}")
        return
    model, dtype = ast.unparse(statement.targets[0]), f"torch.{draft.values['dtype']}"
    made = f"{spelt(draft, HOOK)}({spelt(draft, dtype)})"
    draft.changes.insert_after(statement, f"{model}.register_comm_hook(None, {made})")
