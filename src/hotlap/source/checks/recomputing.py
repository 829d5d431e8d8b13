"""Blocks whose forward pass is computed again in the backward pass."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.module import Source

_CHECKPOINTS = ("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential")


def recomputed_forward(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`checkpoint(block, x)`: worth a word only where a profile shows that memory is free."""
    yield from source.calls(*_CHECKPOINTS)
