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
    """`padding="max_length"`, the older `pad_to_max_length=True`, `enable_padding(length=...)`."""
    for call in source.tree.every(ast.Call):
        given = {word.arg: word.value for word in call.keywords if word.arg}
        if (
            constant(source, given.get("padding")) == "max_length"
            or constant(source, given.get("pad_to_max_length")) is True
            or ("length" in given and text(call.func).rpartition(".")[2] == ENABLE)
        ):
            yield call
