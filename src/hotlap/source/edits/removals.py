"""Taken out: anomaly detection that is always on, `torch.cuda.empty_cache()` in the step."""

import ast
from collections.abc import Sequence

import libcst as cst

from hotlap.source.patch.draft import Draft
from hotlap.source.patch.writer import Line

_SETTER = "torch.autograd.set_detect_anomaly"
_CONTEXT = "torch.autograd.detect_anomaly"


def debug_off(draft: Draft) -> None:
    """Take `set_detect_anomaly(True)` and `with detect_anomaly():` out."""
    for call in draft.source.calls(_SETTER, _CONTEXT, "torch.autograd.anomaly_mode.detect_anomaly"):
        if not _is_on(draft, call):
            continue
        parent = draft.source.tree.parent(call)
        if isinstance(parent, ast.Expr):
            if _is_optional(draft, parent):
                draft.by_hand(call, "a switch turns anomaly detection on: leave it off")
            else:
                draft.changes.remove(parent)
        elif isinstance(parent, ast.withitem):
            _unwrap(draft, parent)
        else:
            draft.by_hand(call, "take anomaly detection out here")
    draft.nothing_here("anomaly detection is not switched on in these files: look at what does")


def _is_on(draft: Draft, call: ast.Call) -> bool:
    if draft.source.names.of(call.func) != _SETTER:
        return True
    mode = [k.value for k in call.keywords if k.arg == "mode"]
    value = next(iter([*call.args, *mode]), None)
    if value is not None and draft.literal(value) is None:
        draft.by_hand(call, f"anomaly detection is on when {ast.unparse(value)} is: leave it off")
        return False
    return draft.literal(value) != (False,)


def _is_optional(draft: Draft, statement: ast.stmt) -> bool:
    """Whether it stands under an `if` that is not the script's own main."""
    return any(
        isinstance(above, ast.If) and "__main__" not in ast.unparse(above.test)
        for above in draft.source.tree.above(statement)
    )


def _unwrap(draft: Draft, item: ast.withitem) -> None:
    """Take one context out of a `with`, and the `with` itself when it was the only one."""
    statement = draft.source.tree.parent(item)
    if not isinstance(statement, ast.With):
        return
    index, alone = statement.items.index(item), len(statement.items) == 1

    def change(node: cst.With) -> Sequence[Line]:
        if alone:
            first, *rest = node.body.body
            return [first.with_changes(leading_lines=node.leading_lines), *rest]
        kept = [i for k, i in enumerate(node.items) if k != index]
        kept[-1] = kept[-1].with_changes(comma=node.items[-1].comma)
        return [node.with_changes(items=kept)]

    draft.changes.line(statement, change)


def out_of_the_step(draft: Draft) -> None:
    """Take the call out of loops: expandable segments leave no holes for it to clear."""
    for call in draft.source.calls("torch.cuda.empty_cache"):
        loop = next(draft.source.tree.loops(call), None)
        parent = draft.source.tree.parent(call)
        steps = draft.script.optimizer_steps(loop) if loop is not None else []
        here = any(next(draft.source.tree.loops(step), None) is loop for step in steps)
        if here and isinstance(parent, ast.Expr):
            draft.changes.remove(parent)
