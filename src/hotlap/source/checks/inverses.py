"""Inverted matrices that are only multiplied."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.multiplied import is_only_multiplied
from hotlap.source.module import Source
from hotlap.source.tree import method

_INVERSES = frozenset(
    {"torch.inverse", "torch.linalg.inv", "torch.pinverse", "torch.linalg.pinv",
     "torch.cholesky_inverse"}
)  # fmt: skip
_OF_TENSORS = frozenset({"inverse", "pinverse", "cholesky_inverse"})


def multiplied_inverse(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.inverse(K) @ y`, and what else only multiplies an inverse."""
    for call in source.tree.calls:
        inverts = source.names.of(call.func) in _INVERSES
        of_tensor = method(call) in _OF_TENSORS and not call.args
        if (inverts or of_tensor) and is_only_multiplied(source, call):
            yield call
