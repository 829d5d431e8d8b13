"""Class indices that are written out as a matrix of targets before a loss takes them."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import made_by, meaning
from hotlap.source.found import Spread
from hotlap.source.module import Source
from hotlap.source.tree import behind, method, receiver

_ONE_HOT = "torch.nn.functional.one_hot"
_LOSSES = {
    "torch.nn.functional.kl_div", "torch.nn.functional.cross_entropy", "torch.nn.KLDivLoss",
    "torch.nn.CrossEntropyLoss",
}  # fmt: skip
_SCATTERS = frozenset({"scatter", "scatter_"})
_AS_COLUMN = frozenset({"unsqueeze", "view", "reshape"})
_SAME = frozenset({"clone", "contiguous", "detach", "double", "float", "to", "type_as"})
_SUMS = frozenset({"sum", "mean"})
_DEPTH = 6
"""Names and functions that are followed from a loss to where its targets are made."""


def dense_targets(source: Source, _: Technique) -> Iterator[Spread]:
    """`(one_hot(y, k) * log_softmax(x)).sum()`, and `kl_div` of what `scatter_` makes."""
    for call in source.tree.calls:
        if len(call.args) > 1 and _is_loss(source, call):
            yield from _found(source, call, call.args[1])
    for node in source.tree.every(ast.BinOp):
        if isinstance(node.op, ast.Mult) and _is_summed(source, node):
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if _is_log_softmax(source, one):
                    yield from _found(source, node, other)


def _found(source: Source, node: ast.expr, targets: ast.expr) -> Iterator[Spread]:
    """The loss, if one matrix of class indices is all that its targets are made from."""
    origins = {id(one): one for one in _origins(source, targets, _DEPTH)}
    if len(origins) == 1:
        (origin,) = origins.values()
        yield Spread(node, origin)


def _is_loss(source: Source, call: ast.Call) -> bool:
    made = [call, *(one for one in made_by(source, call.func) if isinstance(one, ast.Call))]
    return any(source.names.of(one.func) in _LOSSES for one in made)


def _is_summed(source: Source, node: ast.expr, depth: int = 2) -> bool:
    """Whether a product goes into a sum, negated or times a number at most."""
    parent = source.tree.parent(node)
    match parent:
        case ast.UnaryOp():
            return _is_summed(source, parent, depth)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            other = right if left is node else left
            return isinstance(other, ast.Constant | ast.UnaryOp) and _is_summed(
                source, parent, depth
            )
        case ast.Assign(targets=[ast.Name() as name]) if depth:
            uses = source.values.flow.uses(name)
            return bool(uses) and all(_is_summed(source, use, depth - 1) for use in uses)
        case ast.Attribute(attr=name):
            return name in _SUMS
        case ast.Call(args=[first, *_]):
            return first is node and source.names.of(parent.func) in {"torch.sum", "torch.mean"}
    return False


def _is_log_softmax(source: Source, node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    found = behind(meaning(source, node), _SAME)
    if not isinstance(found, ast.Call):
        return False
    layers = [one for one in made_by(source, found.func) if isinstance(one, ast.Call)]
    named = method(found) or source.names.of(found.func).rpartition(".")[2]
    return named == "log_softmax" or any(
        source.names.of(one.func) == "torch.nn.LogSoftmax" for one in layers
    )


def _origins(source: Source, node: ast.expr, depth: int) -> Iterator[ast.expr]:
    """Where indices of classes become rows, behind an expression."""
    for part in ast.walk(node):
        if isinstance(part, ast.expr) and _writes_out(source, part):
            yield part
        elif depth:
            for value in _behind(source, part):
                yield from _origins(source, value, depth - 1)


def _behind(source: Source, node: ast.AST) -> Iterator[ast.expr]:
    """What a name holds and what is scattered into it; what a function of the file returns."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield from _scattered_into(source, node)
        yield from made_by(source, node)
    elif isinstance(node, ast.Call) and (function := source.values.local(node)) is not None:
        for returned in source.tree.every(ast.Return):
            if source.tree.function(returned) is function and returned.value is not None:
                yield returned.value


def _writes_out(source: Source, node: ast.AST) -> bool:
    """`one_hot(y)`, `torch.eye(k)[y]`, and a scatter of one number into each row."""
    match node:
        case ast.Subscript(value=ast.Call(func=made)):
            return source.names.of(made) == "torch.eye"
        case ast.Call(func=made, args=[_, index, value]) if method(node) in _SCATTERS:
            return not isinstance(value, ast.Call) and any(map(_is_column, ast.walk(index)))
        case ast.Call(func=made):
            return source.names.of(made) == _ONE_HOT
    return False


def _is_column(node: ast.AST) -> bool:
    """`y.unsqueeze(1)`, `y.view(-1, 1)`, `y[:, None]`: one index for each row."""
    match node:
        case ast.Subscript(slice=ast.Tuple(elts=[*_, ast.Constant(value=None)])):
            return True
    return method(node) in _AS_COLUMN


def _scattered_into(source: Source, name: ast.Name) -> Iterator[ast.expr]:
    """The calls that scatter into what a name holds, in the name's function."""
    function = source.tree.function(name)
    for call in source.tree.methods.get("scatter_", ()):
        owner = receiver(call)
        same = isinstance(owner, ast.Name) and owner.id == name.id
        if same and source.tree.function(call) is function and _writes_out(source, call):
            yield call
