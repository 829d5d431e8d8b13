"""Values that the file spells out: literals, names bound to one, defaults of its own options."""

import ast
import re

from hotlap.source.flow import Definition
from hotlap.source.module import Source
from hotlap.source.project import UNKNOWN
from hotlap.source.tree import FunctionNode, defaults, given, text

__all__ = ["UNKNOWN", "assigned", "constant", "each_passed"]
# What people call the object that holds options.
_HOLDER = re.compile(r"(?:^|_)(?:args?|opts?|options?|config|cfg|conf|hparams|hp|flags|params?|"
                     r"settings|arguments|c)$|(?:config|args|options)$", re.IGNORECASE)  # fmt: skip


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
        case ast.Subscript(value=owner, slice=ast.Constant(value=str() as key)) if depth and text(
            owner
        ):
            told = source.project.constant(f"{source.names.of(owner) or text(owner)}[{key}]")
            return source.project.option(str(key)) if told is UNKNOWN and _HOLDER.search(
                text(owner).rpartition(".")[2]) else told  # fmt: skip
    return UNKNOWN


def _bound(source: Source, node: ast.Name | ast.Attribute, depth: int) -> object:
    definitions = source.values.flow.reaching(node)
    if len(definitions) == 1:
        definition = definitions[0]
        if isinstance(definition.target, ast.arg):
            return _argument(source, definition.target, depth - 1)
        value = assigned(source, definition)
        return UNKNOWN if value is None else constant(source, value, depth - 1)
    if definitions:
        return UNKNOWN
    told = source.project.constant(source.names.of(node) or text(node))
    if told is not UNKNOWN or isinstance(node, ast.Name):
        return told
    return _option(source, node)


def assigned(source: Source, definition: Definition) -> ast.expr | None:
    """The expression that an assignment gives a name, alone or in a row: `a, b = 1, 2`."""
    parent = source.tree.parent(definition.target)
    match parent, source.tree.parent(parent) if parent is not None else None:
        case (ast.Assign() | ast.AnnAssign(), _):
            return definition.value
        case ast.Tuple(elts=names), ast.Assign(value=ast.Tuple(elts=values)):
            found = [v for n, v in zip(names, values, strict=False) if n is definition.target]
            return found[0] if found and len(names) == len(values) else None
    return None


def each_passed(source: Source, name: ast.Name) -> list[ast.expr]:
    """What the calls in this file pass for the parameter that a name is, where they differ."""
    definitions = source.values.flow.reaching(name)
    target = definitions[0].target if len(definitions) == 1 else None
    if not isinstance(target, ast.arg):
        return []
    function = source.tree.parent(source.tree.parent(target) or target)
    if not isinstance(function, ast.FunctionDef):
        return []
    found = (given(call, function).get(target.arg) for call in _calls(source, function))
    return [value for value in found if value is not None]


def _argument(source: Source, parameter: ast.arg, depth: int) -> object:
    """What the one call in this file passes for a parameter, or else its default."""
    function = source.tree.parent(source.tree.parent(parameter) or parameter)
    if not isinstance(function, FunctionNode):
        return UNKNOWN
    passed = [value for call in _calls(source, function)
              if (value := given(call, function).get(parameter.arg)) is not None]  # fmt: skip
    values = [constant(source, value, depth) for value in passed]
    if values:
        same = all(value == values[0] for value in values)
        return values[0] if same else UNKNOWN
    told = _passed_elsewhere(source, function, parameter)
    if told:
        return told[0] if told[0] is not None and len(set(told)) == 1 else UNKNOWN
    default = defaults(function).get(parameter.arg)
    return UNKNOWN if default is None else constant(source, default, depth)


def _passed_elsewhere(
    source: Source, function: FunctionNode, parameter: ast.arg
) -> list[int | None]:
    """What the other files pass for a parameter of a class's `__init__`."""
    owner = source.tree.parent(function)
    if not isinstance(owner, ast.ClassDef) or function.name != "__init__":
        return []
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    at = names.index(parameter.arg) - 1 if parameter.arg in names else -1
    return source.project.passed(owner.name, parameter.arg, at)


def _calls(source: Source, function: FunctionNode) -> list[ast.Call]:
    """The calls of a function of this file; of a class, where it is the class's `__init__`."""
    owner = source.tree.parent(function)
    made = isinstance(owner, ast.ClassDef) and function.name == "__init__"
    name = owner.name if made and isinstance(owner, ast.ClassDef) else function.name
    return source.tree.called.get(name, [])


def _option(source: Source, node: ast.Attribute) -> object:
    """`args.lr`: the default of the option; `Config.lr`: the attribute of the class."""
    owner = text(node.value).rpartition(".")[2]
    found = [
        assign.value
        for one in source.tree.classes
        if one.name == owner
        for assign in one.body
        if isinstance(assign, ast.Assign | ast.AnnAssign)
        and node.attr in map(text, getattr(assign, "targets", [getattr(assign, "target", assign)]))
    ]
    if len(found) == 1 and found[0] is not None:
        return constant(source, found[0], 1)
    return source.project.option(node.attr) if _HOLDER.search(owner) else UNKNOWN
