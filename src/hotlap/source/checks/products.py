"""Products of several tensors."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.module import Source


def einsum_of_several(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.einsum("bnd,bmd,bme->bne", q, k, v)`: three operands or more."""
    for call in source.calls("torch.einsum"):
        match call.args:
            case [ast.Constant(value=str(equation)), *_] if equation.count(",") > 1:
                yield call
