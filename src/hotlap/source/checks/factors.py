"""Decompositions of which more is computed than is used."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import argument, is_constant
from hotlap.source.module import Source

_SVD = ("U", "S", "Vh")
_EIGEN = ("eigenvalues", "eigenvectors")
_PARTS = {
    "torch.linalg.svd": _SVD, "numpy.linalg.svd": _SVD, "scipy.linalg.svd": _SVD,
    "torch.svd": ("U", "S", "V"), "torch.linalg.qr": ("Q", "R"),
    **{f"{library}.linalg.{name}": _EIGEN for library in ("torch", "numpy", "scipy")
       for name in ("eig", "eigh")},
}  # fmt: skip
"""Decompositions, with their results."""
_VALUES = frozenset({"S", "eigenvalues"})

Reads = list[tuple[str, ast.expr]]
"""The expressions that read a part of a decomposition, with the name of the part."""


def full_factors(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`u, s, vh = torch.linalg.svd(x)` of which `u[:, :k]` is used, and the like of QR."""
    for call, reads in _decompositions(source):
        factors = [node for name, node in reads if name not in {*_VALUES, "R"}]
        if factors and _is_full(source, call) and all(_is_cut(source, node) for node in factors):
            yield call


def unused_vectors(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`_, s, _ = torch.linalg.svd(x)`, `torch.linalg.eigh(x)[0]`."""
    for call, reads in _decompositions(source):
        alone = is_constant(argument(call, "compute_uv", 2), False)
        if reads and {name for name, _ in reads} <= _VALUES and not alone:
            yield call


def _decompositions(source: Source) -> Iterator[tuple[ast.Call, Reads]]:
    """The calls of which each result's uses are known."""
    for call in source.tree.calls:
        parts = _PARTS.get(source.names.of(call.func))
        reads = _reads(source, call, parts) if parts else None
        if reads is not None:
            yield call, reads


def _is_full(source: Source, call: ast.Call) -> bool:
    match source.names.of(call.func):
        case "torch.linalg.svd" | "numpy.linalg.svd" | "scipy.linalg.svd":
            return not is_constant(argument(call, "full_matrices", 1), False)
        case "torch.linalg.qr":
            return is_constant(argument(call, "mode", 1), "complete")
    return False


def _reads(source: Source, node: ast.expr, parts: tuple[str, ...], depth: int = 2) -> Reads | None:
    """What reads the parts of a result; None where the whole of it goes elsewhere."""
    parent = source.tree.parent(node)
    match parent:
        case ast.Attribute(attr=name) if name in parts:
            return [(name, parent)]
        case ast.Subscript(slice=ast.Constant(value=int(at))) if at < len(parts):
            return [(parts[at], parent)]
        case ast.Assign(targets=[ast.Tuple(elts=names)]) if len(names) == len(parts):
            return _of_names(source, names, parts)
        case ast.Assign(targets=[ast.Name() as name]) if depth:
            uses = [_reads(source, use, parts, depth - 1) for use in source.values.flow.uses(name)]
            known = [one for one in uses if one is not None]
            return [read for one in known for read in one] if len(known) == len(uses) else None
    return None


def _of_names(source: Source, names: list[ast.expr], parts: tuple[str, ...]) -> Reads | None:
    found: Reads = []
    for name, part in zip(names, parts, strict=True):
        if not isinstance(name, ast.Name):
            return None
        found += [(part, use) for use in source.values.flow.uses(name)]
    return found


def _is_cut(source: Source, node: ast.expr) -> bool:
    """Whether the first rows or columns are taken: `u[:, :k]`, `vh[:k]`, `vh[..., :k, :]`."""
    parent = source.tree.parent(node)
    if not (isinstance(parent, ast.Subscript) and parent.value is node):
        return False
    index = parent.slice.elts if isinstance(parent.slice, ast.Tuple) else [parent.slice]
    return any(map(_begins, index))


def _begins(part: ast.expr) -> bool:
    match part:
        case ast.Slice(lower=None, upper=upper, step=None):
            return upper is not None and not isinstance(upper, ast.UnaryOp)
    return False
