"""Channels last: the model once, where it is made, and each batch of images on its way in."""

import ast
from collections.abc import Callable

import libcst as cst

from hotlap.source.module import Source
from hotlap.source.patch.draft import Draft
from hotlap.source.patch.imports import spelt
from hotlap.source.patch.predicates import class_named
from hotlap.source.tree import attributes_of, method, receiver, text

FORMAT = "torch.channels_last"
_PLAIN = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
_DDP = "torch.nn.parallel.DistributedDataParallel"


def channels_last(draft: Draft) -> None:
    """Write `.to(memory_format=torch.channels_last)` on the model and on what it is called with."""
    script, wish = draft.script, f".to(memory_format={FORMAT})"
    if script.model is None:
        reason = script.why_no_model
        draft.nothing_here(
            f"{reason}: `model = model{wish}`, and on each batch", *script.backward_places
        )
        return
    if _set_already(draft):
        draft.already = True
        return
    value = _value(draft, script.model)
    if value is None:
        draft.by_hand(script.model, f"the model is not assigned plainly: `model = model{wish}`")
        return
    if _viewed(draft):
        return
    code = spelt(draft, FORMAT)
    draft.changes.expression(value, _calling("to", code))
    _batches(draft, code)


def _set_already(draft: Draft) -> bool:
    names = draft.source.names
    return any(
        isinstance(n, ast.Attribute) and names.of(n) == FORMAT for n in draft.source.tree.nodes
    )


def _value(draft: Draft, made: ast.Call) -> ast.expr | None:
    """The whole right-hand side that makes the model: `Net().to(device)`."""
    statement = draft.source.tree.statement(made)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    value = statement.value
    if any(isinstance(n, ast.Call) and draft.source.names.of(n.func) == _DDP
           for n in ast.walk(value)):  # fmt: skip
        return made  # before it is wrapped
    return value if draft.script.is_model(value) else None


def _viewed(draft: Draft) -> bool:
    """Whether an output of the model is `.view()`ed, which needs the default format."""
    for call in draft.source.tree.calls:
        owner = receiver(call)
        if method(call) == "view" and owner is not None:
            origin = draft.script.origins.only(owner)
            if origin in draft.script.model_calls:
                draft.by_hand(
                    call, "write .reshape() for .view() first, or leave channels_last out"
                )
                return True
    return False


def _batches(draft: Draft, code: str) -> None:
    """Convert what the model is called with, where its first layer shows that it is images."""
    images = _takes_images(draft)
    for call in draft.script.model_calls:
        if images and len(call.args) == 1 and isinstance(call.args[0], _PLAIN):
            draft.changes.expression(call.args[0], _calling("contiguous", code))
        else:
            why = "has more arguments" if images else "may take other than images"
            draft.by_hand(
                call, f"the model {why}: write .contiguous(memory_format={code}) on images here"
            )


def _takes_images(draft: Draft) -> bool:
    """Whether `forward` puts its only argument into a 2-D convolution first of all."""
    made = draft.script.model
    if made is None:
        return False
    if _begins_with_convolution(draft.source, made):
        return True
    found = class_named(draft, draft.source.names.of(made.func) or getattr(made.func, "id", ""))
    if found is None:
        return False
    source, node = found
    forward = next((f for f in node.body if getattr(f, "name", "") == "forward"), None)
    if not isinstance(forward, ast.FunctionDef) or len(forward.args.args) != 2:
        return False
    use = next(
        (n for n in _in_order(forward) if isinstance(n, ast.Name)
         and n.id == forward.args.args[1].arg and isinstance(n.ctx, ast.Load)), None,
    )  # fmt: skip
    call = source.tree.parent(use) if use is not None else None
    if not (isinstance(call, ast.Call) and call.args == [use]):
        return False
    layers = attributes_of(node).get(text(call.func), [])
    return bool(layers) and _begins_with_convolution(source, layers[-1])


def _in_order(function: ast.FunctionDef) -> list[ast.Name]:
    nodes = [n for s in function.body for n in ast.walk(s) if isinstance(n, ast.Name)]
    return sorted(nodes, key=lambda n: (n.lineno, n.col_offset))


def _begins_with_convolution(source: Source, made: ast.expr) -> bool:
    """`nn.Conv2d(...)`, or a Sequential that begins with one."""
    if not isinstance(made, ast.Call):
        return False
    dotted = source.names.of(made.func)
    if dotted == "torch.nn.Conv2d":
        return True
    chain = dotted == "torch.nn.Sequential" and bool(made.args)
    return chain and _begins_with_convolution(source, made.args[0])


def _calling(name: str, code: str) -> Callable[[cst.BaseExpression], cst.BaseExpression]:
    """`.name(memory_format=code)` behind an expression."""
    none = cst.SimpleWhitespace("")
    argument = cst.Arg(
        cst.parse_expression(code), cst.Name("memory_format"), equal=cst.AssignEqual(none, none)
    )
    return lambda node: cst.Call(cst.Attribute(node, cst.Name(name)), [argument])
