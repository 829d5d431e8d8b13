"""Activation checkpointing: blocks that are computed again in backward instead of kept."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fnmatch import fnmatchcase
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import checkpoint


def named(model: nn.Module, patterns: Sequence[str]) -> list[nn.Module]:
    """Find the modules whose names match, such as `layers.*` or `encoder.3`, outermost only.

    `*` does not go past a dot.

    Raises:
        ValueError: a pattern that matches nothing, with the names there are.
    """
    found: dict[str, nn.Module] = {}
    modules = dict(model.named_modules())
    for pattern in patterns:
        matched = {name: m for name, m in modules.items() if name and _matches(name, pattern)}
        if not matched:
            some = ", ".join(list(modules)[1:9])
            raise ValueError(f"no block is called {pattern!r}; there are {some}, ...")
        found |= matched
    return [m for name, m in found.items() if not _inside(name, found)]


def _matches(name: str, pattern: str) -> bool:
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _inside(name: str, names: dict[str, nn.Module]) -> bool:
    return any(name.startswith(f"{other}.") for other in names)


def repeated(model: nn.Module) -> list[nn.Module]:
    """Find the outermost modules that repeat side by side: children of one class, two or more.

    Only modules with children and parameters of their own count; containers are looked into.
    """
    kinds = Counter(type(child) for child in model.children() if _is_block(child))
    found = []
    for child in model.children():
        found += [child] if kinds[type(child)] >= 2 else repeated(child)
    return found


def _is_block(module: nn.Module) -> bool:
    if isinstance(module, (nn.Sequential, nn.ModuleList)):
        return False
    return any(True for _ in module.children()) and any(True for _ in module.parameters())


def recompute(blocks: Sequence[nn.Module]) -> None:
    """Recompute these blocks in backward from now on; in evaluation they run as they are.

    Exact: random numbers are replayed, and running statistics of batch normalisation move once. It
    is the block's `forward` that is replaced on the instance; `restore` puts it back.
    """
    for block in blocks:
        if "forward" not in vars(block):
            block.forward = _recomputed(block)


def restore(blocks: Sequence[nn.Module]) -> None:
    """Undo `recompute`."""
    for block in blocks:
        vars(block).pop("forward", None)


def norms(block: nn.Module) -> list[_NormBase]:
    """Layers in a block that keep running statistics."""
    return [m for m in block.modules() if isinstance(m, _NormBase) and m.track_running_stats]


Contexts = tuple[AbstractContextManager[None], AbstractContextManager[None]]


def recompute_contexts(block: nn.Module) -> Callable[[], Contexts]:
    """`context_fn` of a checkpoint: the recomputation moves no running statistics."""
    tracking = WeakSet(norms(block))  # the block holds what is returned
    return lambda: (nullcontext(), _frozen(tracking))


def _recomputed(block: nn.Module) -> Any:
    inner = block.forward
    options: dict[str, Any] = {"use_reentrant": False}
    if norms(block):
        options["context_fn"] = recompute_contexts(block)

    def forward(*args: object, **kwargs: Any) -> object:
        if not (block.training and torch.is_grad_enabled()):
            return inner(*args, **kwargs)
        return checkpoint(inner, *args, **options, **kwargs)

    return forward


@contextmanager
def _frozen(tracking: Iterable[_NormBase]) -> Iterator[None]:
    """Leave the running statistics as they are: the forward pass moved them already."""
    buffers = [buffer for norm in tracking for buffer in norm.buffers(recurse=False)]
    before = [buffer.clone() for buffer in buffers]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, was in zip(buffers, before, strict=True):
                buffer.copy_(was)
