"""Switches of cuDNN that work against each other or against speed."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import (
    argument,
    is_constant,
    place,
    trainers,
    unconditional,
    within,
)
from hotlap.source.module import Source
from hotlap.source.tree import keyword

_CUDNN = "torch.backends.cudnn"
_STRICT = "torch.use_deterministic_algorithms"


def benchmark_contradiction(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`benchmark = True` where deterministic algorithms are asked for."""
    for call in trainers(source):
        value = keyword(call, "benchmark")
        if is_constant(value, True) and is_constant(keyword(call, "deterministic"), True):
            yield value or call
    if b"cudnn" not in source.content:
        return
    for scope in (source.tree.module, *source.tree.functions):
        settings = sorted(_settings(source, scope), key=lambda setting: place(setting[0]))
        tries, strict = _final(settings, "benchmark"), _final(settings, "deterministic")
        if tries is not None and strict is not None and _together(source, tries, strict):
            yield tries


def cudnn_off(source: Source, _: Technique) -> Iterator[ast.AST]:
    """The cuDNN library switched off by a constant."""
    if b"cudnn" not in source.content:
        return
    for scope in (source.tree.module, *source.tree.functions):
        for node, name, on in _settings(source, scope):
            if name == "enabled" and not on and unconditional(source, node):
                yield node


Setting = tuple[ast.AST, str, bool]


def _settings(source: Source, scope: ast.AST) -> Iterator[Setting]:
    """What a function or the module sets to a constant."""
    for node in within(source, scope):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                owner, _, name = source.names.of(target).rpartition(".")
                if owner == _CUDNN:
                    yield node, name, bool(node.value.value)
        elif isinstance(node, ast.Call) and source.names.of(node.func) == _STRICT:
            yield node, "deterministic", is_constant(argument(node, "mode", 0), True)


def _final(settings: list[Setting], name: str) -> ast.AST | None:
    """The statement that leaves a switch on."""
    last = [(node, on) for node, found, on in settings if found == name]
    return last[-1][0] if last and last[-1][1] else None


def _together(source: Source, one: ast.AST, other: ast.AST) -> bool:
    """Whether both statements run in one run: the same options decide on both."""
    if source.tree.exclusive(one, other):
        return False
    return _options(source, one) == _options(source, other)


def _options(source: Source, node: ast.AST) -> set[int]:
    return {id(h) for h, _ in source.tree.blocks(node) if isinstance(h, ast.If | ast.Try)}
