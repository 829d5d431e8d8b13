"""`torch.autocast` around each forward and the loss that follows it.

A race computes the loss from outputs in float32. One of torch's own losses does the same under
autocast; other arithmetic would be done in 16 bits, so that it stays outside, on float32 outputs.
"""

import ast
from collections.abc import Iterator

import libcst as cst

from hotlap.source.edits.devices import device_type
from hotlap.source.edits.outputs import is_tensor, rounds
from hotlap.source.edits.regions import Region, regions, under
from hotlap.source.edits.scaler import check as check_scaler
from hotlap.source.patch.draft import Draft, UnsureError
from hotlap.source.patch.imports import spelt
from hotlap.source.tree import method, receiver, text

_FORWARDS = frozenset({"forward", "__call__"})
_NAMES = frozenset({"torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast"})


def autocast(draft: Draft) -> None:
    """Write `with torch.autocast(...)` around every call of the model and its loss.

    Raises:
        UnsureError: outputs go to NumPy, or the type is float16 and its scaler cannot be written.
    """
    head = f"with torch.autocast(device, dtype=torch.{draft.values['dtype']}):"
    script = draft.script
    check_scaler(draft)
    for region in regions(draft):
        if under(draft, region.call, _NAMES):
            draft.already = True
        elif region.why_not:
            draft.by_hand(region.call, f"{region.why_not}: `{head}` around forward and loss")
        else:
            _wrap(draft, region, head)
    for call in _of_itself(draft):
        if not under(draft, call, _NAMES):
            draft.by_hand(call, f"the model calls itself here: `{head}` around it and the loss")
    if not script.model_calls:
        reason = script.why_no_model if script.model is None else "the model is not called here"
        draft.nothing_here(f"{reason}: `{head}` around forward and loss", *script.backward_places)


def _of_itself(draft: Draft) -> Iterator[ast.Call]:
    """Calls `self(x)` in a method of the model, such as one that `model.evaluate(x)` calls."""
    tree = draft.source.tree
    made = text(draft.script.model.func) if draft.script.model is not None else ""
    for call in tree.calls:
        owner, function = tree.class_of(call), tree.function(call)
        if owner is None or function is None or function.name in _FORWARDS:
            continue
        own = [one.arg for one in function.args.args[:1]]
        if owner.name == made and text(call.func) in own:
            yield call


def _wrap(draft: Draft, region: Region, head: str) -> None:
    if not rounds(draft, region):
        _check(draft, region)
        draft.changes.wrap(region.first, region.last, _head(draft, region))
    elif is_tensor(draft, region.call):
        draft.changes.wrap(region.first, region.first, _head(draft, region))
        draft.changes.expression(region.call, _widened)
    else:
        text = f"`{head}` around the forward alone, and `.float()` of its outputs before the loss"
        draft.by_hand(region.call, text)


def _widened(call: cst.BaseExpression) -> cst.BaseExpression:
    """`call.float()`."""
    return cst.Call(cst.Attribute(call, cst.Name("float")))


def _head(draft: Draft, region: Region) -> str:
    kind = device_type(draft, region.call)
    if not kind:
        kind = f"next({ast.unparse(region.call.func)}.parameters()).device.type"
    dtype = spelt(draft, f"torch.{draft.values['dtype']}")
    return f"with {spelt(draft, 'torch.autocast')}({kind}, dtype={dtype})"


def _check(draft: Draft, region: Region) -> None:
    """NumPy has no bfloat16: outputs that go there must be float32 again.

    Raises:
        UnsureError: they are not made float32.
    """
    function = draft.source.tree.function(region.call) or draft.source.tree.module
    for node in ast.walk(function):
        if method(node) == "numpy" and _roots(node) & region.outputs:
            raise UnsureError(
                node, "write `.float()` before `.numpy()`, and autocast around forward and loss"
            )


def _roots(call: ast.AST) -> frozenset[str]:
    """The names that a chain of calls, attributes and items begins with."""
    return frozenset(_chain(call))


def _chain(node: ast.AST) -> Iterator[str]:
    while True:
        if method(node) == "float":
            return
        if isinstance(node, ast.Call):
            node = receiver(node) or ast.Pass()
        elif isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        else:
            break
    if isinstance(node, ast.Name):
        yield node.id
