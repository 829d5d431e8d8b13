"""How DataLoaders are made."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.module import Source

LOADER = "torch.utils.data.DataLoader"
_POSITIONS = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers")


def serial_loader(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`num_workers` missing or 0."""
    for call, given in _loaders(source):
        workers = given.get("num_workers")
        if workers is None or _is(workers, 0):
            yield call


def workers_restarted(source: Source, _: Technique) -> Iterator[ast.AST]:
    """Workers without `persistent_workers`, in a loader that is iterated more than once."""
    for call, given in _loaders(source):
        if _has_workers(given) and not _given(given, "persistent_workers"):
            yield call


def unpinned_loader(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`pin_memory` missing where the file moves batches to a CUDA device."""
    if b"cuda" not in source.content:
        return
    for call, given in _loaders(source):
        if not _given(given, "pin_memory"):
            yield call


def loader_rebuilt(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A loader with workers made anew in each epoch."""
    for call, given in _loaders(source):
        if _has_workers(given) and source.loops.in_epoch(call):
            yield call


def _loaders(source: Source) -> Iterator[tuple[ast.Call, dict[str, ast.expr]]]:
    """Each DataLoader made, with its arguments by name; unknown ones are left out."""
    for call in source.calls(LOADER):
        given = source.arguments(call)
        if given is not None:
            yield call, {**dict(zip(_POSITIONS, call.args, strict=False)), **given}


def _has_workers(given: dict[str, ast.expr]) -> bool:
    """Whether `num_workers` is a number above 0."""
    workers = given.get("num_workers")
    return (
        isinstance(workers, ast.Constant) and isinstance(workers.value, int) and workers.value > 0
    )


def _given(given: dict[str, ast.expr], name: str) -> bool:
    value = given.get(name)
    return value is not None and not _is(value, False)


def _is(node: ast.expr, value: object) -> bool:
    return (isinstance(node, ast.Constant) and node.value is value) or (
        isinstance(node, ast.Constant) and type(node.value) is type(value) and node.value == value
    )  # fmt: skip
