"""`torch.cuda.empty_cache()` taken out of the step."""

import ast

from hotlap.source.patch.draft import Draft


def out_of_the_step(draft: Draft) -> None:
    """Take the call out of loops: expandable segments leave no holes for it to clear."""
    for call in draft.source.calls("torch.cuda.empty_cache"):
        loop = next(draft.source.tree.loops(call), None)
        parent = draft.source.tree.parent(call)
        steps = draft.script.optimizer_steps(loop) if loop is not None else []
        here = any(next(draft.source.tree.loops(step), None) is loop for step in steps)
        if here and isinstance(parent, ast.Expr):
            draft.changes.remove(parent)
