"""Attention written out: a matrix product, a softmax, a matrix product."""

import ast
import re
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import argument, body_of, made_by
from hotlap.source.found import Spread
from hotlap.source.module import Source
from hotlap.source.tree import method, names_in, receiver, text

_PRODUCTS = frozenset({"torch.matmul", "torch.bmm", "torch.baddbmm"})
_EINSUM = "torch.einsum"
_SOFTMAX = frozenset({"torch.softmax", "torch.nn.functional.softmax", "torch.special.softmax"})
# What may stand between: it changes the type, masks, scales or drops, and SDPA does the same.
_PASSING = frozenset({"to", "type_as", "float", "half", "contiguous", "type", "bfloat16"})
_PASSING |= {"masked_fill", "masked_fill_", "div", "div_", "mul", "mul_", "add", "add_", "dropout"}
_FUNCTIONS = frozenset({"torch.nn.functional.dropout", "torch.dropout", "torch.masked_fill"})
_DROPOUT = re.compile(r"drop", re.IGNORECASE)
_LAST = frozenset({-1, 2, 3})


def attention_by_hand(source: Source, _: Technique) -> Iterator[Spread]:
    """Products with weights that are nothing but a softmax of a product, and that product."""
    if b"softmax" not in source.content.lower():
        return
    for node in [*source.tree.every(ast.BinOp), *source.tree.calls]:
        sides = _product(source, node)
        if sides is None or _fused_too(source, node):
            continue
        softmax = _back(source, sides[0], between=False)
        scores = _scores(source, softmax) if softmax is not None else None
        if scores is not None:
            found = _back(source, scores, between=True)
            if found is not None and _product(source, found) is not None:
                yield Spread(node, found)


def _product(source: Source, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The two factors of a matrix product of any spelling."""
    if isinstance(node, ast.BinOp):
        return (node.left, node.right) if isinstance(node.op, ast.MatMult) else None
    if not isinstance(node, ast.Call):
        return None
    dotted = source.names.of(node.func)
    if dotted in _PRODUCTS and len(node.args) >= 2:
        return node.args[-2], node.args[-1]
    if dotted == _EINSUM and len(node.args) == 3:
        return node.args[1], node.args[2]
    owner = receiver(node)
    if method(node) in {"matmul", "bmm"} and owner is not None and len(node.args) == 1:
        return (owner, node.args[0]) if not dotted.startswith("torch.") else None
    return None


def _scores(source: Source, node: ast.expr) -> ast.expr | None:
    """The argument of a softmax over the last axis."""
    if not isinstance(node, ast.Call):
        return None
    dotted, owner = source.names.of(node.func), receiver(node)
    if len(node.args) == 1 and _is_softmax_module(source, node.func):
        return node.args[0]
    if dotted in _SOFTMAX and node.args:
        return node.args[0] if _last(argument(node, "dim", 1)) else None
    if method(node) == "softmax" and owner is not None and not dotted.startswith("torch."):
        return owner if _last(argument(node, "dim", 0)) else None
    return None


def _last(axis: ast.expr | None) -> bool:
    match axis:
        case ast.Constant(value=int() as value):
            return value in _LAST
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)):
            return True
    return False


def _is_softmax_module(source: Source, node: ast.expr) -> bool:
    """`self.softmax`, made by `nn.Softmax(dim=-1)`; or that call itself."""
    return any(
        isinstance(call, ast.Call)
        and source.names.of(call.func) == "torch.nn.Softmax"
        and _last(argument(call, "dim", 0))
        for call in made_by(source, node)
    )


def _back(source: Source, node: ast.expr, between: bool) -> ast.expr | None:
    """Back through names, masks, scales and dropout to a product (`between`) or a softmax."""
    for _ in range(24):
        if _product(source, node) if between else _scores(source, node) is not None:
            return node
        step = _through(source, node, between)
        if step is None:
            return None
        node = step
    return None


def _through(source: Source, node: ast.expr, between: bool) -> ast.expr | None:
    match node:
        case ast.Name():
            return _only_here(source, node)
        case ast.BinOp(op=ast.Mult() | ast.Div() | ast.Add() | ast.Sub()) if between:
            return _leading(source, [node.left, node.right])
        case ast.Call():
            return _through_call(source, node, between)
    return None


def _through_call(source: Source, node: ast.Call, between: bool) -> ast.expr | None:
    """What a mask, a scale, a dropout or a change of type is applied to."""
    dotted, owner = source.names.of(node.func), receiver(node)
    drops = len(node.args) == 1 and _DROPOUT.search(text(node.func).rpartition(".")[2])
    if drops or (dotted in _FUNCTIONS and node.args):
        return node.args[0]
    if method(node) in _PASSING and not dotted.startswith("torch."):
        return owner
    if dotted == "torch.where" and len(node.args) == 3 and between:
        return _leading(source, node.args[1:])
    return None


def _leading(source: Source, sides: list[ast.expr]) -> ast.expr | None:
    """The one operand that a product of matrices leads to."""
    found = [side for side in sides if _leads(source, side)]
    return found[0] if len(found) == 1 else None


def _leads(source: Source, node: ast.expr) -> bool:
    return _back(source, node, between=True) is not None


def _only_here(source: Source, name: ast.Name) -> ast.expr | None:
    """The value of a name whose every definition is used for the next and the last for this.

    `scores = scores.masked_fill(...)` under an `if` is one of several definitions.
    """
    flow = source.values.flow
    definitions = [d for d in flow.reaching(name) if d.value is not None]
    if not definitions or len(definitions) < len(flow.reaching(name)):
        return None
    if any(not isinstance(d.target, ast.Name) or _unpacks(source, d.target) for d in definitions):
        return None
    uses = [
        other
        for other in source.tree.every(ast.Name)
        if other.id == name.id
        and other is not name
        and isinstance(other.ctx, ast.Load)
        and body_of(source, other) is body_of(source, name)
        and set(flow.reaching(other)) & set(definitions)
    ]
    updates = {id(d.value): d for d in definitions}
    for use in uses:
        around = [up for up in source.tree.above(use) if id(up) in updates]
        if not around:
            return None
    first = min(definitions, key=lambda d: d.at)
    rest = [d for d in definitions if d is not first and d.value is not None]
    if all(_passes(source, d.value, name.id) for d in rest):
        return first.value
    return None


def _unpacks(source: Source, target: ast.AST) -> bool:
    return isinstance(source.tree.parent(target), ast.Tuple)


def _passes(source: Source, value: ast.expr | None, name: str) -> bool:
    """Whether an update is a mask, a scale or a dropout of the name itself."""
    node = value
    for _ in range(12):
        if node is None:
            return False
        if isinstance(node, ast.Name):
            return node.id == name
        if isinstance(node, ast.BinOp):
            sides = [side for side in (node.left, node.right) if name in names_in(side)]
            node = sides[0] if len(sides) == 1 else None
            continue
        if isinstance(node, ast.Call) and source.names.of(node.func) == "torch.where":
            sides = [side for side in node.args[1:] if name in names_in(side)]
            node = sides[0] if len(sides) == 1 else None
            continue
        node = _through(source, node, between=True)
    return False


def _fused_too(source: Source, node: ast.AST) -> bool:
    """Whether the class or function has the fused form already: this one is its fallback."""
    scope = source.tree.class_of(node) or source.tree.function(node) or source.tree.module
    return any(
        (isinstance(n, ast.Attribute) and n.attr == "scaled_dot_product_attention")
        or (isinstance(n, ast.Name) and n.id == "scaled_dot_product_attention")
        for n in ast.walk(scope)
    )
