"""Products of several tensors, and of all pairs."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import argument, made_by
from hotlap.source.found import Spread
from hotlap.source.module import Source
from hotlap.source.tree import behind, method, receiver

_SUMS = frozenset({"sum", "mean", "norm"})
_SQUARES = frozenset({"pow", "square", "abs"})
_COPIES = frozenset({"expand", "expand_as", "repeat", "contiguous"})
_OF_TWO = frozenset({"cosine_similarity", "pairwise_distance"})
_MODULES_OF_TWO = frozenset({"torch.nn.CosineSimilarity", "torch.nn.PairwiseDistance"})


def einsum_of_several(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.einsum("bnd,bmd,bme->bne", q, k, v)`: three operands or more."""
    for call in source.calls("torch.einsum"):
        match call.args:
            case [ast.Constant(value=str(equation)), *_] if equation.count(",") > 1:
                yield call


def pairs_by_broadcast(source: Source, _: Technique) -> Iterator[Spread]:
    """`(a[:, None] * b[None]).sum(-1)`, the same of squared differences, or of their functions."""
    for call in source.tree.calls:
        if _compares_pairs(source, call):
            yield Spread(call, call)
            continue
        summed = _summed(source, call)
        pairs = None if summed is None else _pairs(source, summed, method(call) == "norm")
        if pairs is not None:
            yield Spread(call, pairs)


def _compares_pairs(source: Source, call: ast.Call) -> bool:
    """`F.cosine_similarity(a[:, None], b[None], dim=-1)`, and what else compares rows with rows."""
    if len(call.args) < 2 or not _has_new_axis(source, call.args[0]):
        return False
    function = source.names.of(call.func)
    of_two = function.startswith("torch.") and function.rpartition(".")[2] in _OF_TWO
    return (of_two or _is_module_of_two(source, call)) and _has_new_axis(source, call.args[1])


def _is_module_of_two(source: Source, call: ast.Call) -> bool:
    made = made_by(source, call.func)
    return any(
        isinstance(one, ast.Call) and source.names.of(one.func) in _MODULES_OF_TWO for one in made
    )


def _summed(source: Source, call: ast.Call) -> ast.expr | None:
    """What a call sums up over one axis."""
    name, dotted = method(call), source.names.of(call.func)
    of_torch = dotted.startswith(("torch.", "numpy."))
    if name not in _SUMS or (of_torch and not call.args):
        return None
    at = int(of_torch) + int(name == "norm")
    axis = argument(call, "dim", at) or argument(call, "axis", -1)
    return None if axis is None else call.args[0] if of_torch else receiver(call)


def _pairs(source: Source, node: ast.expr, is_norm: bool) -> ast.expr | None:
    """The product of all pairs, or the difference that is squared, behind an expression."""
    (node,) = made if len(made := made_by(source, node)) == 1 else (node,)
    match node:
        case ast.BinOp(op=ast.Mult()):
            return _of_pairs(source, node)
        case ast.BinOp(op=ast.Pow(), left=inner):
            return _difference(source, inner)
        case ast.BinOp(op=ast.Sub()) if is_norm:
            return _of_pairs(source, node)
        case ast.Call() if method(node) in _SQUARES:
            of_torch = source.names.of(node.func).startswith("torch.")
            squared = node.args[0] if of_torch and node.args else receiver(node)
            return _difference(source, squared) if squared is not None else None
    return None


def _difference(source: Source, node: ast.expr) -> ast.expr | None:
    (node,) = made if len(made := made_by(source, node)) == 1 else (node,)
    match node:
        case ast.BinOp(op=ast.Sub()):
            return _of_pairs(source, node)
    return None


def _of_pairs(source: Source, node: ast.BinOp) -> ast.expr | None:
    """The node, where both sides got an axis for it."""
    return node if all(_has_new_axis(source, one) for one in (node.left, node.right)) else None


def _has_new_axis(source: Source, node: ast.expr) -> bool:
    """`a[:, None]` or `a.unsqueeze(1)`, also where that is expanded or has a name."""
    (node,) = made if len(made := made_by(source, node)) == 1 else (node,)
    match node := behind(node, _COPIES):
        case ast.Subscript(slice=ast.Tuple(elts=parts)):
            return any(isinstance(one, ast.Constant) and one.value is None for one in parts)
        case ast.Subscript(slice=ast.Constant(value=None)):
            return True
        case ast.Call():
            return method(node) == "unsqueeze"
    return False
