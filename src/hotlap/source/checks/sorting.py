"""Tensors that are sorted as a whole, of which a few elements are read."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.module import Source
from hotlap.source.tree import keyword, method, receiver

_SORTS = frozenset({"torch.sort", "torch.argsort", "torch.msort"})
_OF_TENSORS = frozenset({"sort", "argsort"})
_PARTS = ("values", "indices")


def sorted_for_a_few(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`scores.argsort(descending=True)[:, :k]`, and `torch.sort(x)[0][-k:]`."""
    for call in source.tree.calls:
        one = method(call) == "argsort" or source.names.of(call.func).endswith("argsort")
        if _sorts(source, call) and _are_few(source, call, () if one else _PARTS):
            yield call


def _sorts(source: Source, call: ast.Call) -> bool:
    """Whether a tensor is sorted; what NumPy or a list sorts is another matter."""
    name = source.names.of(call.func)
    if name in _SORTS:
        return True
    of = receiver(call)
    known = of is not None and source.names.of(of).startswith("numpy")
    return method(call) in _OF_TENSORS and not known and keyword(call, "key") is None


def _are_few(source: Source, node: ast.expr, parts: tuple[str, ...], depth: int = 2) -> bool:
    """Whether every use of a result takes some elements of it, at its beginning or end.

    `parts`: the names of its parts, where it is a tuple.
    """
    parent = source.tree.parent(node)
    match parent:
        case ast.Attribute(attr=attr) if attr in parts:
            return _are_few(source, parent, (), depth)
        case ast.Subscript(slice=ast.Constant(value=0 | 1)) if parts:
            return _are_few(source, parent, (), depth)
        case ast.Subscript(value=of, slice=index) if of is node and not parts:
            return _few(index)
        case ast.Assign(targets=[ast.Tuple(elts=names)]) if parts and depth:
            return _all_few(source, names, (), depth - 1)
        case ast.Assign(targets=[ast.Name() as name]) if depth:
            return _all_few(source, [name], parts, depth - 1)
    return False


def _all_few(source: Source, names: list[ast.expr], parts: tuple[str, ...], depth: int) -> bool:
    """Whether every use of these names takes some elements, and there is one."""
    uses = [
        use for name in names if isinstance(name, ast.Name) for use in source.values.flow.uses(name)
    ]
    return bool(uses) and all(_are_few(source, use, parts, depth) for use in uses)


def _few(index: ast.expr) -> bool:
    """Whether an index has a bound: `[:k]`, `[:, :k]`, `[..., 8:72]`, `[-k:]`."""
    last = index.elts[-1] if isinstance(index, ast.Tuple) and index.elts else index
    match last:
        case ast.Slice(lower=ast.UnaryOp(op=ast.USub()), upper=None, step=None):
            return True
        case ast.Slice(upper=upper, step=None):
            return upper is not None and not isinstance(upper, ast.UnaryOp)
    return False
