"""What an expression holds, worked out from what its parts do."""

import ast

from hotlap.source import kinds as kind
from hotlap.source.called import of_call
from hotlap.source.kinds import Kinds, joined, several
from hotlap.source.tree import text
from hotlap.source.values import Handlers, Values


def _attribute(values: Values, node: ast.Attribute) -> Kinds:
    inner = values.kinds(node.value)
    if inner & {kind.TENSOR, kind.GRAPH, kind.ARRAY} and kind.MODEL not in inner:
        if node.attr in kind.SHAPES:
            return kind.NONE
        found = inner & (kind.DATA | {kind.ARRAY})
        return found - {kind.GRAPH} if node.attr in {"data", "grad"} else found
    if kind.MODEL in inner and node.attr == "module":
        return frozenset({kind.MODEL})
    above = values.tree.parent(node)
    if node.attr == "values" and not (isinstance(above, ast.Call) and above.func is node):
        return frozenset({kind.ARRAY})  # pandas
    return values.of_variable(node) if text(node) else kind.NONE


def _binary(values: Values, node: ast.BinOp) -> Kinds:
    """Of two arrays `@` may make a number."""
    sides = [values.kinds(node.left), values.kinds(node.right)]
    if isinstance(node.op, ast.MatMult):
        return joined(sides) - {kind.ARRAY}
    return joined(sides) | (sides[0] | sides[1]) & {kind.ARRAY}


def _subscript(values: Values, node: ast.Subscript) -> Kinds:
    owner = values.kinds(node.value)
    found = owner & (kind.DATA - {kind.SEVERAL})
    if kind.ARRAY in owner and any(isinstance(part, ast.Slice) for part in ast.walk(node.slice)):
        found |= {kind.ARRAY}
    if owner & kind.OBJECTS and kind.LOADER not in owner:
        return owner & {kind.MODEL, kind.OPTIMIZER}
    return found | {kind.ARRAY} if kind.ARRAYS in owner else found


def _compare(values: Values, node: ast.Compare) -> Kinds:
    if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
        return kind.NONE
    if any(isinstance(part, ast.Constant) and isinstance(part.value, str)
           for part in node.comparators):  # fmt: skip
        return kind.NONE
    sides = [values.kinds(part) for part in (node.left, *node.comparators)]
    either = frozenset().union(*sides)
    return (joined(sides) - {kind.GRAPH, kind.SEVERAL}) | (either & {kind.ARRAY})


def _value(values: Values, node: ast.Await | ast.Starred | ast.NamedExpr) -> Kinds:
    return values.kinds(node.value)


def _collection(values: Values, node: ast.List | ast.Tuple | ast.Set | ast.Dict) -> Kinds:
    elements = node.values if isinstance(node, ast.Dict) else node.elts
    return several(frozenset().union(*map(values.kinds, elements)))


def _comprehension(values: Values, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Kinds:
    return several(values.kinds(node.elt))


HANDLERS: Handlers = {
    ast.Name: Values.of_variable,
    ast.Attribute: _attribute,
    ast.Call: of_call,
    ast.BinOp: _binary,
    ast.UnaryOp: lambda values, node: (
        kind.NONE if isinstance(node.op, ast.Not) else values.kinds(node.operand)
    ),
    **dict.fromkeys((ast.Await, ast.Starred, ast.NamedExpr), _value),
    ast.Subscript: _subscript,
    ast.Compare: _compare,
    ast.IfExp: lambda values, node: values.kinds(node.body) | values.kinds(node.orelse),
    **dict.fromkeys((ast.List, ast.Tuple, ast.Set, ast.Dict), _collection),
    **dict.fromkeys((ast.ListComp, ast.GeneratorExp, ast.SetComp), _comprehension),
    ast.DictComp: lambda values, node: several(values.kinds(node.value)),
}
"""What works out the kinds of an expression, by its syntax."""
