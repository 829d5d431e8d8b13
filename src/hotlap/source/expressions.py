"""What an expression holds, worked out from what its parts do."""

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hotlap.source import called
from hotlap.source.kinds import (
    ARRAY,
    ARRAYS,
    DATA,
    GRAPH,
    LOADER,
    MODEL,
    NONE,
    OBJECTS,
    OPTIMIZER,
    SEVERAL,
    SHAPES,
    TENSOR,
    Kinds,
    joined,
    several,
)
from hotlap.source.tree import text

if TYPE_CHECKING:
    from hotlap.source.values import Values

_FLAT = DATA - {SEVERAL}


def _attribute(values: "Values", node: ast.Attribute) -> Kinds:
    inner = values.kinds(node.value)
    if inner & {TENSOR, GRAPH, ARRAY} and MODEL not in inner:
        if node.attr in SHAPES:
            return NONE
        found = inner & (DATA | {ARRAY})
        return found - {GRAPH} if node.attr in {"data", "grad"} else found
    if MODEL in inner and node.attr == "module":
        return frozenset({MODEL})
    above = values.tree.parent(node)
    if node.attr == "values" and not (isinstance(above, ast.Call) and above.func is node):
        return frozenset({ARRAY})  # pandas
    return values.of_variable(node) if text(node) else NONE


def _name(values: "Values", node: ast.Name) -> Kinds:
    return values.of_variable(node)


def _binary(values: "Values", node: ast.BinOp) -> Kinds:
    sides = [values.kinds(node.left), values.kinds(node.right)]
    return joined(sides) | (sides[0] | sides[1]) & {ARRAY}


def _inner(values: "Values", node: ast.UnaryOp | ast.Await | ast.Starred) -> Kinds:
    if isinstance(node, ast.UnaryOp):
        kinds = values.kinds(node.operand)
        return NONE if isinstance(node.op, ast.Not) else kinds
    return values.kinds(node.value)


def _subscript(values: "Values", node: ast.Subscript) -> Kinds:
    kinds = values.kinds(node.value)
    found = kinds & _FLAT
    if ARRAY in kinds and any(isinstance(part, ast.Slice) for part in ast.walk(node.slice)):
        found |= {ARRAY}
    if kinds & OBJECTS and LOADER not in kinds:
        return kinds & {MODEL, OPTIMIZER}
    return found | {ARRAY} if ARRAYS in kinds else found


def _compare(values: "Values", node: ast.Compare) -> Kinds:
    if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
        return NONE
    if any(isinstance(part, ast.Constant) and isinstance(part.value, str)
           for part in node.comparators):  # fmt: skip
        return NONE
    sides = [values.kinds(part) for part in (node.left, *node.comparators)]
    return (joined(sides) - {GRAPH, SEVERAL}) | (frozenset().union(*sides) & {ARRAY})


def _either(values: "Values", node: ast.IfExp) -> Kinds:
    return values.kinds(node.body) | values.kinds(node.orelse)


def _walrus(values: "Values", node: ast.NamedExpr) -> Kinds:
    return values.kinds(node.value)


def _collection(values: "Values", node: ast.List | ast.Tuple | ast.Set) -> Kinds:
    return several(frozenset().union(*map(values.kinds, node.elts)) if node.elts else NONE)


def _dictionary(values: "Values", node: ast.Dict) -> Kinds:
    return several(frozenset().union(*map(values.kinds, node.values)) if node.values else NONE)


def _comprehension(values: "Values", node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Kinds:
    return several(values.kinds(node.elt))


def _mapping(values: "Values", node: ast.DictComp) -> Kinds:
    return several(values.kinds(node.value))


HANDLERS: dict[type[ast.AST], Callable[["Values", Any], Kinds]] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: called.kinds,
    ast.BinOp: _binary,
    ast.UnaryOp: _inner,
    ast.Await: _inner,
    ast.Starred: _inner,
    ast.Subscript: _subscript,
    ast.Compare: _compare,
    ast.IfExp: _either,
    ast.NamedExpr: _walrus,
    ast.List: _collection,
    ast.Tuple: _collection,
    ast.Set: _collection,
    ast.Dict: _dictionary,
    ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _mapping,
}
"""What works out the kinds of an expression, by its syntax."""
