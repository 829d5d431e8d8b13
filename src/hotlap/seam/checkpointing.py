"""Activation checkpointing of the repeated blocks of a model."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch.nn import Module, Sequential

from hotlap.common.recomputing import checkpointed, exact, repeated
from hotlap.seam.moves import Context
from hotlap.seam.roots import SLOT, CallModule, CallRoot, InSlot, Order, called_copy, has_parameters

FEWEST_PARTS = 3


@contextmanager
def activation_checkpoint(context: Context) -> Iterator[None]:
    """Recompute each block in backward; on exit the blocks are as they were."""
    taken: WeakKeyDictionary[Module, CallModule] = WeakKeyDictionary()

    def maker(root: Module, _: CallRoot) -> None:
        if not has_parameters(root):
            return
        found = list(filter(exact, blocks(root)))
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


def _take_out(taken: WeakKeyDictionary[Module, CallModule]) -> None:
    """Empty the slots of these blocks, unless the program has put something else there since."""
    for block, recomputed in taken.items():
        if block.__dict__.get(SLOT) is recomputed:
            del block.__dict__[SLOT]


def blocks(root: Module) -> list[Module]:
    """Find the outermost modules that repeat side by side; failing these, a Sequential's parts."""
    if found := repeated(root):
        return found
    chains = [module for module in root.modules() if isinstance(module, Sequential)]
    largest = max(chains, key=len, default=None)
    parts = list(largest.children()) if largest is not None else []
    return [part for part in parts if has_parameters(part)] if len(parts) >= FEWEST_PARTS else []


def _recomputed(block: Module) -> CallModule:
    """A block's call that recomputes it in backward; it does not keep the block alive."""
    alive = ref(block)

    def call(*args: Any, **kwargs: Any) -> object:
        block = alive()
        is_compiling = torch.compiler.is_dynamo_compiling()
        if not is_compiling and (copy := called_copy(block)) is not None:
            return copy._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]
        assert block is not None  # it is the one that is called
        inner = block._call_impl
        if not (block.training and torch.is_grad_enabled()):
            return inner(*args, **kwargs)  # type: ignore[no-untyped-call]
        return checkpointed(block, inner, args, kwargs)

    return InSlot(call)
