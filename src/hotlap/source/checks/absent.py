"""What a training loop does not use at all: a hint for each loop, for a race to decide."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.module import Source


def full_precision_training(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A training loop in a project that mentions neither a lower precision nor float64 models."""
    if not source.project.has("float64"):
        yield from _loops_without(source, "autocast")


def uncompiled_model(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A training loop in a project that compiles nothing."""
    yield from _loops_without(source, "compile", on_cpu=True)


def channels_first_convolutions(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A training loop of convolutions in a project that mentions no memory format."""
    if source.project.has("convolves"):
        yield from _loops_without(source, "channels_last")


def untuned_convolutions(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A training loop of convolutions in a project that does not say how cuDNN should choose."""
    if source.project.has("convolves"):
        yield from _loops_without(source, "benchmark")


def unclipped_gradients(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A training loop of a recurrent or attention model whose gradients nothing limits."""
    if source.project.has("recurrent"):
        yield from _loops_without(source, "clips", on_cpu=True)


def constant_learning_rate(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A training loop in a project that never changes the learning rate."""
    yield from _loops_without(source, "schedules", on_cpu=True)


def _loops_without(source: Source, trait: str, *, on_cpu: bool = False) -> Iterator[ast.AST]:
    """The outermost training loops, where nothing in the project mentions `trait`.

    `on_cpu`: what it would bring does not need a device.
    """
    if source.project.has(trait) or (source.names.no_device and not on_cpu):
        return
    loops = [region.loop or region.body for region in source.script.steps if region.backward]
    functions: set[ast.AST] = set()
    for loop in loops:
        scope = source.tree.function(loop) or source.tree.module
        if scope not in functions:
            functions.add(scope)
            yield loop
