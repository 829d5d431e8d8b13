"""What several checks ask about the place of a node: always run, in one branch, in the steps."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from hotlap.source.constants import assigned, constant
from hotlap.source.module import Source
from hotlap.source.tree import FunctionNode, Tree, method, names_in, text

_TEST_FILE = re.compile(r"(test_.*|.*_test)\.py")  # as pytest looks for them
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LIGHTNING = ("lightning", "lightning.pytorch", "pytorch_lightning", "lightning.pytorch.trainer")
_TRAINERS = frozenset(f"{package}.Trainer" for package in _LIGHTNING)
_GRADIENTS = ("torch.autograd.grad", "torch.enable_grad", "torch.func.",
              "torch.autograd.functional")  # fmt: skip


def unconditional(source: Source, node: ast.AST) -> bool:
    """Whether no option decides on a node: no `if` but for the main guard or for a device."""
    tree, below = source.tree, node
    for around in tree.above(node):
        match around:
            case ast.If() | ast.IfExp() if below is not around.test and not _usual(around.test):
                taken = below is around.body or (isinstance(around.body, list)
                                                 and below in around.body)  # fmt: skip
                if not (taken and constant(source, around.test) is True):
                    return False
            case ast.ExceptHandler():
                return False
            case ast.FunctionDef(name=name) if name.startswith("test"):
                return False
        below = around
    return True


def _usual(test: ast.expr) -> bool:
    words = names_in(test)
    asked = {n.attr for n in ast.walk(test) if isinstance(n, ast.Attribute)}
    text_of = {n.value for n in ast.walk(test) if isinstance(n, ast.Constant)}
    device = bool(text_of & {"cuda", "gpu"}) or bool((words | asked) & {"use_cuda", "cuda", "gpu"})
    return "__name__" in words or device or bool(
        asked & {"is_available", "device_count", "is_cuda"})  # fmt: skip


def in_branch(tree: Tree, node: ast.AST) -> bool:
    """Whether an `if` decides on a node."""
    return any(isinstance(holder, ast.If) for holder, _ in tree.blocks(node))


def place(node: ast.AST) -> tuple[int, int]:
    """Where a node starts."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def body_of(source: Source, node: ast.AST) -> ast.AST:
    """The function a node stands in, or the module."""
    return source.tree.function(node) or source.tree.module


def within(source: Source, scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function or module, without those of the functions in it."""
    return iter(source.tree.of_scope[scope])


def calls_within(source: Source, scope: ast.AST) -> list[ast.Call]:
    """The calls of a function or module, in the order of the source."""
    return _calls(source, scope)


@lru_cache(maxsize=256)
def _calls(source: Source, scope: ast.AST) -> list[ast.Call]:
    return sorted((n for n in within(source, scope) if isinstance(n, ast.Call)), key=place)


@lru_cache(maxsize=256)
def methods_within(source: Source, scope: ast.AST, name: str) -> list[ast.Call]:
    """The calls `x.name(...)` of a function or module, in the order of the source."""
    return [call for call in calls_within(source, scope) if method(call) == name]


def reached(source: Source, root: ast.AST, depth: int = 4) -> Iterator[ast.AST]:
    """The nodes below a node and those of the functions of the file that they call."""
    seen: set[ast.AST] = set()
    waiting = [(root, 0)]
    while waiting:
        where, level = waiting.pop()
        if where in seen:
            continue
        seen.add(where)
        for node in ast.walk(where):
            yield node
            if isinstance(node, ast.Call) and level < depth:
                function = source.values.local(node)
                waiting += [(function, level + 1)] if function is not None else []


def callers(source: Source, function: ast.AST) -> list[ast.Call]:
    """The calls in this file of a function of this file, recursion aside."""
    return source.values.callers.get(function, [])


@lru_cache(maxsize=2)
def in_steps(source: Source) -> set[ast.AST]:
    """What runs in the step loops of a file, be it at some steps only, by way of calls too."""
    regions = source.script.steps
    return {node for region in regions for node in reached(source, region.loop or region.body)}


def in_test(source: Source, node: ast.AST) -> bool:
    """Whether a node stands in a function that asserts, as unit tests do.

    An `assert` statement is one of a unit test where pytest would collect the function.
    """
    function = source.tree.function(node)
    if function is None:
        return False
    collected = function.name.startswith("test_") and _TEST_FILE.match(source.path.name)
    return any(
        method(call).startswith("assert") for call in calls_within(source, function)
    ) or bool(collected and any(isinstance(one, ast.Assert) for one in ast.walk(function)))


def every_step(source: Source, node: ast.AST) -> bool:
    """Whether a node runs at each step: under no option, in no handler and in no test."""
    if not source.loops.in_step(node) or in_test(source, node):
        return False
    below = node
    for around in source.tree.above(node):
        decides = isinstance(around, ast.If) and below is not around.test
        if decides and not _usual(around.test) and not of_each(source, around):  # type: ignore[attr-defined]
            return False
        if isinstance(around, ast.ExceptHandler):
            return False
        if isinstance(around, ast.For | ast.While | FunctionNode):
            return True
        below = around
    return True


def branches(source: Source, node: ast.AST) -> Iterator[ast.If]:
    """The `if`s that a node of a function lies in."""
    return (holder for holder, _ in source.tree.blocks(node) if isinstance(holder, ast.If))


def of_each(source: Source, branch: ast.AST) -> bool:
    """Whether an `if` stands in a loop over parameters: it holds for some of them at each step."""
    loop = next(source.tree.loops(branch), None)
    return isinstance(loop, ast.For) and method(loop.iter) in {"named_parameters", "parameters"}


def argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    """An argument by keyword or position (-1: by keyword only)."""
    given = {entry.arg: entry.value for entry in call.keywords}
    if name in given:
        return given[name]
    return call.args[position] if 0 <= position < len(call.args) else None


def is_constant(node: ast.AST | None, value: object) -> bool:
    """Whether a node is this very constant."""
    if not isinstance(node, ast.Constant):
        return False
    return type(node.value) is type(value) and node.value == value


def meaning(source: Source, node: ast.expr) -> ast.expr:
    """The expression behind a name that has one definition; else the node itself."""
    for _ in range(8):
        if not isinstance(node, ast.Name):
            return node
        reaching = source.values.flow.reaching(node)
        value = assigned(source, reaching[0]) if len(reaching) == 1 else None
        if value is None:
            return node
        node = value
    return node


def made_by(source: Source, node: ast.expr) -> list[ast.expr]:
    """The values that a name or attribute may hold here; any other expression as it is."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return [node]
    reaching = source.values.flow.reaching(node)
    return [one.value for one in reaching if one.value is not None]


def _plain(source: Source, node: ast.expr) -> ast.expr:
    """The meaning of an expression, that of the argument of `int(...)`."""
    found = meaning(source, node)
    match found:
        case ast.Call(func=ast.Name(id="int"), args=[wrapped]):
            return meaning(source, wrapped)
    return found


def integer(source: Source, node: ast.expr | None) -> int | None:
    """The value of an integer that the file spells out, sums and products included."""
    match _plain(source, node) if node is not None else None:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult() | ast.Sub() as op, right=right):
            one, other = integer(source, left), integer(source, right)
            if one is None or other is None:
                return None
            if isinstance(op, ast.Mult):
                return one * other
            return one + other if isinstance(op, ast.Add) else one - other
        case ast.Name() | ast.Attribute() | ast.Subscript() as variable:
            told = constant(source, variable)
            return told if isinstance(told, int) and not isinstance(told, bool) else None
    return None


def trainers(source: Source) -> list[ast.Call]:
    """The Lightning trainers made."""
    return source.calls(*_TRAINERS)


def in_comprehension(source: Source, node: ast.AST) -> ast.AST | None:
    """The innermost comprehension whose element a node belongs to."""
    for around in source.tree.above(node):
        if isinstance(around, ast.stmt):
            return None
        if isinstance(around, _COMPREHENSIONS):
            return around
    return None


@lru_cache(maxsize=64)
def goes_backward(source: Source, root: ast.AST) -> bool:
    """Whether gradients are taken below a node, or asked for."""
    return any(takes_gradients(source, node) for node in reached(source, root))


def takes_gradients(source: Source, node: ast.AST) -> bool:
    """Whether a node itself takes gradients or asks for them."""
    if method(node) in {"backward", "grad", "manual_backward", "requires_grad_", "jacobian"}:
        return True
    if isinstance(node, ast.Attribute):
        return node.attr == "requires_grad" and _stored(node)
    if not isinstance(node, ast.Call):
        return False
    return source.names.of(node.func).startswith(_GRADIENTS) or node in source.script.handed_losses


def _stored(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


def name_of(node: ast.AST | None) -> str:
    """A name or attribute chain as written; empty for anything else."""
    return text(node) if node is not None else ""
