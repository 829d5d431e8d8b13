"""Activation checkpointing of the repeated blocks of a model."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.nn import Module, ModuleList, Sequential
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import checkpoint

from hotlap.seam.moves import Context
from hotlap.seam.order import Order
from hotlap.seam.roots import SLOT, CallModule, called_copy, has_parameters

REPEATED = 2


@contextmanager
def activation_checkpoint(context: Context) -> Iterator[None]:
    """Recompute each block in backward; on exit the blocks are as they were."""
    taken: dict[Module, CallModule] = {}

    def maker(root: Module, _: CallModule) -> None:
        if not has_parameters(root):
            return
        found = blocks(root)
        if not found:
            context.inert("the model has no blocks to checkpoint")
        for block in found:
            if block.__dict__.get(SLOT) is None:
                taken[block] = block.__dict__[SLOT] = _recomputed(block)
        if found:
            context.held(f"{len(found)} blocks: {type(found[0]).__name__}")

    context.seams.roots.add(Order.BLOCKS, maker, context.failed)
    try:
        yield
    finally:
        _take_out(taken)


def _take_out(taken: dict[Module, CallModule]) -> None:
    """Empty the slots of these blocks, unless the program has put something else there since."""
    for block, recomputed in taken.items():
        if block.__dict__.get(SLOT) is recomputed:
            del block.__dict__[SLOT]


def blocks(root: Module) -> list[Module]:
    """Find the outermost modules that repeat side by side; failing these, a Sequential's parts."""
    found = list(_repeated(root))
    if found:
        return found
    chains = [module for module in root.modules() if isinstance(module, Sequential)]
    largest = max(chains, key=len, default=None)
    parts = list(largest.children()) if largest is not None else []
    return [part for part in parts if has_parameters(part)] if len(parts) > REPEATED else []


def _repeated(module: Module) -> Iterator[Module]:
    """Children of one class, at least two, that have children of their own and parameters."""
    children = list(module.children())
    kinds = Counter(type(child) for child in children if _is_block(child))
    for child in children:
        if kinds[type(child)] >= REPEATED:
            yield child
        else:
            yield from _repeated(child)


def _is_block(module: Module) -> bool:
    inner = next(module.children(), None) is not None
    return inner and has_parameters(module) and not isinstance(module, (Sequential, ModuleList))


def _recomputed(block: Module) -> Callable[..., Any]:
    inner = block._call_impl
    norms = [m for m in block.modules() if isinstance(m, _NormBase) and m.track_running_stats]

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _frozen(norms)

    def call(*args: Any, **kwargs: Any) -> Any:
        is_compiling = torch.compiler.is_dynamo_compiling()
        if not is_compiling and (copy := called_copy(block)) is not None:
            return copy._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]
        if not (block.training and torch.is_grad_enabled()):
            return inner(*args, **kwargs)  # type: ignore[no-untyped-call]
        return checkpoint(inner, *args, use_reentrant=False, context_fn=contexts, **kwargs)

    return call


@contextmanager
def _frozen(norms: list[_NormBase]) -> Iterator[None]:
    """Keep the recomputation from updating running statistics a second time."""
    buffers = [b for norm in norms for b in norm.buffers(recurse=False)]
    before = [buffer.clone() for buffer in buffers]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, was in zip(buffers, before, strict=True):
                buffer.copy_(was)
