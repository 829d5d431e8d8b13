"""Sizes that tensor cores cannot fill: not a multiple of 8."""

import ast
import re
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import argument, integer
from hotlap.source.checks.loading import loaders
from hotlap.source.constants import each_passed
from hotlap.source.module import Source
from hotlap.source.tree import opaque, text

STEP = 8
_SMALL = 16
_CLASSES = 128
_VOCABULARY = 1000
_HEAD = re.compile(r"(?:^|[._])(?:head|fc\d*|cls|classifier|out\w*|logits|score|final|last\w*)$")
_EVALUATES = re.compile(r"(?:^|_|\.)(?:val|valid|validation|eval|test|testing|dev)", re.IGNORECASE)
# The arguments of each layer that are sizes: name, position, whether it is an output.
_LINEAR = (("in_features", 0, False), ("out_features", 1, True))
_CONV = (("in_channels", 0, False), ("out_channels", 1, True))
_RECURRENT = (("input_size", 0, False), ("hidden_size", 1, False))
_SIZES = {
    "torch.nn.Linear": _LINEAR,
    **{f"torch.nn.{kind}{n}d": _CONV for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)},
    **{f"torch.nn.{kind}": _RECURRENT for kind in ("LSTM", "GRU", "RNN")},
    "torch.nn.Embedding": (("num_embeddings", 0, False), ("embedding_dim", 1, False)),
    "torch.nn.MultiheadAttention": (("embed_dim", 0, False),),
    "torch.nn.TransformerEncoderLayer": (("d_model", 0, False), ("dim_feedforward", 2, False)),
    "torch.nn.TransformerDecoderLayer": (("d_model", 0, False), ("dim_feedforward", 2, False)),
}


def odd_dimension(source: Source, _: Technique) -> Iterator[tuple[ast.AST, str]]:
    """Layers with a size that is not a multiple of 8, those that must be so left out."""
    for call in source.calls(*_SIZES):
        dotted = source.names.of(call.func)
        odd = [] if opaque(call) else [
            f"{name}={size}"
            for name, position, output in _SIZES[dotted]
            if _odd(size := _size(source, argument(call, name, position)))
            and not _given_by_the_task(source, call, dotted, name, size or 0, output)
        ]  # fmt: skip
        if odd:
            yield call, ", ".join(odd)


def odd_batch(source: Source, _: Technique) -> Iterator[tuple[ast.AST, str]]:
    """A batch size that is not a multiple of 8."""
    for call, given in loaders(source):
        size = integer(source, given.get("batch_size"))
        odd = size is not None and size > STEP and size % STEP
        if odd and not _evaluates(source, call):
            yield call, f"batch_size={size}"


def _size(source: Source, node: ast.expr | None) -> int | None:
    """A size that the file spells out; of those that several calls pass, the first odd one."""
    size = integer(source, node)
    if size is None and isinstance(node, ast.Name):
        passed = (integer(source, value) for value in each_passed(source, node))
        size = next(filter(_odd, passed), None)
    return size


def _evaluates(source: Source, call: ast.Call) -> bool:
    """Whether a loader is called one for evaluation: its batches train nothing."""
    parent = source.tree.parent(call)
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    return any(_EVALUATES.search(text(target)) for target in targets)


def _odd(size: int | None) -> bool:
    return size is not None and size >= _SMALL and size % STEP != 0


def _given_by_the_task(
    source: Source, call: ast.Call, dotted: str, name: str, size: int, output: bool
) -> bool:
    """Small tables, numbers of classes: not what a user could choose otherwise."""
    if name == "num_embeddings":
        return size < _VOCABULARY
    if not output or size >= _VOCABULARY:
        return False
    if dotted == "torch.nn.Linear":
        return size <= _CLASSES or _is_head(source, call)
    return _is_head(source, call) or integer(source, argument(call, "kernel_size", 2)) == 1


def _is_head(source: Source, call: ast.Call) -> bool:
    """The last layer: by its name, or by its place in a `Sequential`."""
    parent = source.tree.parent(call)
    if isinstance(parent, ast.Assign):
        return any(_HEAD.search(text(target)) for target in parent.targets)
    return isinstance(parent, ast.Call) and bool(parent.args) and parent.args[-1] is call
