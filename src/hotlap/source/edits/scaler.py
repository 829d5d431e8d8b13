"""A GradScaler for float16: made beside the optimizer, used where gradients are made and used."""

import ast

from hotlap.source.patch.calls import add_argument
from hotlap.source.patch.draft import Draft, UnsureError
from hotlap.source.patch.imports import spelt
from hotlap.source.patch.writer import Changes
from hotlap.source.tree import FunctionNode, receiver

_CLIPS = tuple(f"torch.nn.utils.{name}" for name in ("clip_grad_norm_", "clip_grad_value_"))
_BY_HAND = (
    "make `scaler = torch.amp.GradScaler()`; then scaler.scale(loss).backward(), "
    "scaler.unscale_(optimizer) before clipping, scaler.step(optimizer), scaler.update()"
)


def scaler(draft: Draft) -> None:
    """Scale the loss, if the chosen type is float16; bfloat16 has float32's range.

    Raises:
        UnsureError: it is not certain what is stepped where, or how the scaler gets there.
    """
    if draft.values["dtype"] != "float16" or "autocast" not in draft.text:
        return
    if "GradScaler" in draft.text:
        draft.already = True
        return
    if not draft.script.model_calls:
        return
    backward = draft.script.backward_calls
    if not backward:
        raise UnsureError(draft.script.model_calls[0], _BY_HAND)
    if len(backward) != 1 or len(draft.script.optimizers) != 1:
        raise UnsureError(backward[0], _BY_HAND)
    name = _made(draft, backward[0], draft.script.optimizers[0])
    _used(draft, backward[0], name)


def check(draft: Draft) -> None:
    """Whether the scaler could be written into this text; without one, float16 must not be either.

    Raises:
        UnsureError: it could not.
    """
    text = f"{draft.text}\n# autocast\n"
    scaler(Draft(draft.path, text, draft.encoding, draft.entry, draft.classes, draft.values))


def _made(draft: Draft, backward: ast.Call, optimizer: ast.Call) -> str:
    """Make the scaler after the optimizer; return its name where the step is."""
    statement = draft.source.tree.statement(optimizer)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        raise UnsureError(optimizer, _BY_HAND)
    target = statement.targets[0]
    name = "self.scaler" if isinstance(target, ast.Attribute) else "scaler"
    draft.changes.insert_after(statement, f"{name} = {spelt(draft, 'torch.amp.GradScaler')}()")
    here, there = draft.source.tree.function(optimizer), draft.source.tree.function(backward)
    if isinstance(target, ast.Attribute):
        if draft.source.tree.class_of(optimizer) is not draft.source.tree.class_of(backward):
            raise UnsureError(backward, _BY_HAND)
    elif here is not there and here is not None:
        _hand_over(draft, there, here)
    elif here is not there:
        return name  # a global of the module
    return name


def _hand_over(draft: Draft, inner: FunctionNode | None, outer: FunctionNode) -> None:
    """Give the function that steps a parameter for the scaler, and pass it in every call."""
    calls = draft.script.origins.callers(inner) if inner is not None else None
    if inner is None or not calls or inner.args.vararg or inner.args.kwonlyargs:
        raise UnsureError(inner, _BY_HAND)
    if inner.args.kwarg or inner.args.defaults or not inner.args.args:
        raise UnsureError(inner, _BY_HAND)
    if any(draft.source.tree.function(call) is not outer for call in calls):
        raise UnsureError(inner, _BY_HAND)
    for call in calls:
        add_argument(draft, call, "scaler" if call.keywords else "", "scaler")
    draft.changes.parameter(inner, "scaler")


def _used(draft: Draft, backward: ast.Call, name: str) -> None:
    changes, script = draft.changes, draft.script
    loss = receiver(backward)
    assert loss is not None
    changes.code(loss, f"{name}.scale({ast.unparse(loss)})")
    around = draft.source.tree.function(backward) or draft.source.tree.module
    steps = script.optimizer_steps(around)
    if len(steps) != 1 or steps[0].args or steps[0].keywords:
        raise UnsureError(backward, _BY_HAND)
    owner = receiver(steps[0])
    assert owner is not None
    optimizer = ast.unparse(owner)
    _unscaled(draft, changes, around, f"{name}.unscale_({optimizer})")
    changes.code(steps[0], f"{name}.step({optimizer})")
    changes.insert_after(draft.source.tree.statement(steps[0]), f"{name}.update()")


def _unscaled(draft: Draft, changes: Changes, around: ast.AST, code: str) -> None:
    clips = [c for c in draft.source.calls(*_CLIPS) if draft.source.tree.inside(c, around)]
    if clips:
        changes.insert_before(draft.source.tree.statement(clips[0]), code)
    elif any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in ast.walk(around)):
        raise UnsureError(around, f"the script reads gradients itself: {_BY_HAND}")
