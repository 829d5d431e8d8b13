"""`non_blocking=True` on the copies of each batch to the device."""

import ast

from hotlap.source.edits.batches import moves
from hotlap.source.patch.calls import add_argument
from hotlap.source.patch.draft import Draft


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
