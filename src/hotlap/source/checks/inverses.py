"""Inverted matrices that are only multiplied, and determinants beside them."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.multiplied import is_only_multiplied
from hotlap.source.module import Source
from hotlap.source.tree import method, receiver

_INVERSES = frozenset(
    {"torch.inverse", "torch.linalg.inv", "torch.pinverse", "torch.linalg.pinv",
     "torch.cholesky_inverse"}
)  # fmt: skip
_OF_TENSORS = frozenset({"inverse", "pinverse", "cholesky_inverse"})
_SOLVERS = _INVERSES | {"torch.linalg.solve"}
_DETERMINANTS = frozenset(
    {"torch.logdet", "torch.slogdet", "torch.det", "torch.linalg.slogdet", "torch.linalg.det"}
)
_OF_A_TENSOR = frozenset({"logdet", "slogdet", "det"})


def multiplied_inverse(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.inverse(K) @ y`, and what else only multiplies an inverse."""
    for call in source.tree.calls:
        if _matrix(source, call, _INVERSES, _OF_TENSORS) and is_only_multiplied(source, call):
            yield call


def factored_twice(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.logdet(K)` where the same function inverts `K`, or solves a system with it."""
    solved = {
        (source.tree.scope(call), matrix)
        for call in source.tree.calls
        if (matrix := _matrix(source, call, _SOLVERS, _OF_TENSORS))
    }
    for call in source.tree.calls:
        matrix = _matrix(source, call, _DETERMINANTS, _OF_A_TENSOR)
        if matrix and (source.tree.scope(call), matrix) in solved:
            yield call


def _matrix(
    source: Source, call: ast.Call, functions: frozenset[str], methods: frozenset[str]
) -> str:
    """The matrix that one of the functions is called on, as written; empty for another call."""
    if source.names.of(call.func) in functions:
        return ast.unparse(call.args[0]) if call.args else ""
    of = receiver(call)
    return ast.unparse(of) if method(call) in methods and of is not None and not call.args else ""
