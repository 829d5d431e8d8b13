"""Matrices of which a product is all that is used."""

import ast

from hotlap.source.module import Source
from hotlap.source.tree import method, names_in, receiver

_PRODUCTS = frozenset({"einsum", "matmul", "mm", "bmm", "mv", "dot", "vdot"})
_VIEWS = frozenset({"squeeze", "unsqueeze", "transpose", "t", "reshape", "view", "detach"})


def is_only_multiplied(source: Source, call: ast.Call) -> bool:
    """Whether each use of a result is a product with something that it is no part of."""
    node = _seen_through(source, call)
    parent = source.tree.parent(node)
    match parent:
        case ast.Assign(targets=[ast.Name(id=name)]):
            scope = source.tree.scope(node)
            loads = [one for one in source.tree.loads.get(name, ())
                     if source.tree.scope(one) is scope]  # fmt: skip
            return bool(loads) and all(
                _is_multiplied(source, _seen_through(source, one), {name}) for one in loads
            )
    return _is_multiplied(source, node, set())


def _seen_through(source: Source, node: ast.expr) -> ast.expr:
    """The views of an expression: `x.T`, `x.squeeze(0)`, `x[0]`."""
    while True:
        parent = source.tree.parent(node)
        match parent:
            case ast.Attribute(value=owner, attr="T" | "mT") if owner is node:
                node = parent
            case ast.Subscript(value=owner) if owner is node:
                node = parent
            case ast.Attribute(value=owner, attr=name) if owner is node and name in _VIEWS:
                call = source.tree.parent(parent)
                if not isinstance(call, ast.Call):
                    return node
                node = call
            case _:
                return node


def _is_multiplied(source: Source, node: ast.expr, names: set[str]) -> bool:
    """Whether an expression is multiplied by one that has none of these names."""
    match source.tree.parent(node):
        case ast.BinOp(op=ast.MatMult(), left=left, right=right):
            other = right if left is node else left
            return names.isdisjoint(names_in(other))
        case ast.Call() as call if node in call.args:
            function = source.names.of(call.func)
            of_torch = function.startswith("torch.") and function.rpartition(".")[2] in _PRODUCTS
            others = [one for one in (receiver(call), *call.args) if one is not None]
            rest = [one for one in others if one is not node]
            is_product = of_torch or method(call) in _PRODUCTS
            return is_product and all(names.isdisjoint(names_in(one)) for one in rest)
        case ast.Attribute(value=owner, attr=name) as of if owner is node and name in _PRODUCTS:
            return isinstance(source.tree.parent(of), ast.Call)
    return False
