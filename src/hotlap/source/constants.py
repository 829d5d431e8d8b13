"""Values that the file spells out: literals, names bound to one, defaults of its own options."""

import ast

from hotlap.source.module import Source
from hotlap.source.tree import keyword, text


class Unknown:
    """Stands for a value that the file does not tell."""


UNKNOWN = Unknown()


def constant(source: Source, node: ast.expr | None, depth: int = 3) -> object:
    """The value of an expression, or UNKNOWN; None stands for an argument that is not given."""
    match node:
        case None:
            return None
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Name() | ast.Attribute() if depth:
            return _bound(source, node, depth)
    return UNKNOWN


def _bound(source: Source, node: ast.Name | ast.Attribute, depth: int) -> object:
    definitions = source.values.flow.reaching(node)
    if len(definitions) == 1 and definitions[0].value is not None:
        return constant(source, definitions[0].value, depth - 1)
    if definitions or isinstance(node, ast.Name) or not isinstance(node.value, ast.Name):
        return UNKNOWN
    return _option(source, node)


def _option(source: Source, node: ast.Attribute) -> object:
    """`args.lr`: the default of the option; `Config.lr`: the attribute of the class."""
    for call in source.tree.methods.get("add_argument", []):
        if _destination(call) == node.attr:
            return constant(source, keyword(call, "default"), 1)
    found = [
        assign.value
        for owner in source.tree.classes
        for assign in owner.body
        if isinstance(assign, ast.Assign | ast.AnnAssign)
        and node.attr in map(text, getattr(assign, "targets", [getattr(assign, "target", assign)]))
    ]
    return constant(source, found[0], 1) if len(found) == 1 and found[0] is not None else UNKNOWN


def _destination(call: ast.Call) -> str:
    given = keyword(call, "dest")
    if isinstance(given, ast.Constant):
        return str(given.value)
    names = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    long = [name for name in names if name.startswith("--")] or names
    return long[0].lstrip("-").replace("-", "_") if long else ""
