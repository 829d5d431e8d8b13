"""Sequences that are padded to a fixed length."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.constants import constant
from hotlap.source.module import Source
from hotlap.source.tree import text

ENABLE = "enable_padding"
"""The method of a tokenizer of `tokenizers`; without `length` it pads to the longest."""


def padded_to_max_length(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`padding="max_length"` and its older forms; `ids + [0] * (length - len(ids))`."""
    yield from filter(lambda call: _asks(source, call), source.tree.every(ast.Call))
    sums: list[ast.BinOp | ast.AugAssign] = [*source.tree.every(ast.BinOp)]
    for node in (*sums, *source.tree.every(ast.AugAssign)):
        if isinstance(node.op, ast.Add) and _fills(source, node):
            yield node


def _asks(source: Source, call: ast.Call) -> bool:
    """Whether a call pads to one length; also `enable_padding(length=...)`."""
    given = {word.arg: word.value for word in call.keywords if word.arg}
    return (
        constant(source, given.get("padding")) == "max_length"
        or constant(source, given.get("pad_to_max_length")) is True
        or ("length" in given and text(call.func).rpartition(".")[2] == ENABLE)
    )


def _fills(source: Source, node: ast.BinOp | ast.AugAssign) -> bool:
    """Whether a list is filled up to a length that is not the longest one of its batch."""
    filled, added = (node.left, node.right) if isinstance(node, ast.BinOp) else (
        node.target, node.value)  # fmt: skip
    match added:
        case ast.BinOp(
            left=ast.List(elts=[_]),
            op=ast.Mult(),
            right=ast.BinOp(
                left=length,
                op=ast.Sub(),
                right=ast.Call(func=ast.Name(id="len"), args=[padded]),
            ),
        ):
            return text(padded) == text(filled) and not _longest(source, length)
    return False


def _longest(source: Source, length: ast.expr) -> bool:
    """Whether a length is the maximum of something, as that of the sequences of a batch."""
    values = [length]
    if isinstance(length, ast.Name):
        values = [d.value for d in source.values.flow.reaching(length) if d.value is not None]
    calls = (value.func for value in values if isinstance(value, ast.Call))
    return any(text(function).rpartition(".")[2] == "max" for function in calls)
