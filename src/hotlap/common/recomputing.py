"""Activation checkpointing: blocks that are computed again in backward instead of kept."""

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.utils.checkpoint import checkpoint

Call = Callable[..., object]


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

    Exact: random numbers are replayed, running statistics of batch normalisation move once, and
    blocks with a spectral norm are left as they are. It is the block's `forward` that is replaced
    on the instance; `restore` puts it back.
    """
    for block in blocks:
        if "forward" not in vars(block) and exact(block):
            block.forward = _recomputed(block)


def restore(blocks: Sequence[nn.Module]) -> None:
    """Undo `recompute`."""
    for block in blocks:
        vars(block).pop("forward", None)


def norms(block: nn.Module) -> list[_NormBase]:
    """Layers in a block that keep running statistics."""
    return [m for m in block.modules() if isinstance(m, _NormBase) and m.track_running_stats]


def checkpointed(
    block: nn.Module, inner: Call, args: tuple[object, ...], kwargs: dict[str, Any]
) -> object:
    """Call a block so that it is computed again in backward, as it was: see `_AsBefore`.

    In a graph of torch.compile, which replays random numbers itself, a block with running
    statistics is not computed again: they would move twice.
    """
    if not torch.compiler.is_dynamo_compiling():
        inner = _AsBefore(block, inner)
    elif norms(block):
        return inner(*args, **kwargs)
    return checkpoint(inner, *args, use_reentrant=False, **kwargs)


def exact(block: nn.Module) -> bool:
    """Whether computing a block again gives the same: spectral norms move with each call."""
    return not any(map(_iterates, block.modules()))


def _iterates(module: nn.Module) -> bool:
    hooks = module._forward_pre_hooks.values()
    return isinstance(module, _SpectralNorm) or any(isinstance(h, SpectralNorm) for h in hooks)


_State = tuple[nn.Module, bool, dict[str, nn.Parameter | None], dict[str, torch.Tensor | None]]


class _AsBefore:
    """A block's call; from the second one on with all that the first one met.

    These are its parameters and buffers, which `functional_call` swaps, the modes of its modules,
    and the states of Python's and NumPy's random numbers. Running statistics, which the first call
    has moved, stay as they are.
    """

    def __init__(self, block: nn.Module, inner: Call) -> None:
        self._block, self._inner = block, inner
        self._states, self._random = _states(block), _random_states()
        self._again = False

    def __call__(self, *args: object, **kwargs: object) -> object:
        if not self._again:
            self._again = True
            return self._inner(*args, **kwargs)
        with self._before():
            return self._inner(*args, **kwargs)

    @contextmanager
    def _before(self) -> Iterator[None]:
        now, drawn = _states(self._block), _random_states()
        _put(self._states, self._random)
        tracked = [b for norm in norms(self._block) for b in norm.buffers(recurse=False)]
        moved = [(buffer, buffer.clone()) for buffer in tracked]
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, was in moved:
                    buffer.copy_(was)
            _put(now, drawn)


def _states(block: nn.Module) -> list[_State]:
    """Modes, parameters and buffers of a block's modules."""
    return [(m, m.training, dict(m._parameters), dict(m._buffers)) for m in block.modules()]


def _put(states: Iterable[_State], random_states: Iterable[Callable[[], None]]) -> None:
    for module, training, parameters, buffers in states:
        module.training = training
        module._parameters.update(parameters)
        module._buffers.update(buffers)
    for put_random_state in random_states:
        put_random_state()


def _random_states() -> list[Callable[[], None]]:
    """What puts the generators that torch's checkpoint does not replay back to where they are."""
    found: list[Callable[[], None]] = [partial(random.setstate, random.getstate())]
    if numpy := sys.modules.get("numpy"):
        found.append(partial(numpy.random.set_state, numpy.random.get_state()))
    return found


def _recomputed(block: nn.Module) -> Any:
    inner = block.forward

    def forward(*args: object, **kwargs: object) -> object:
        if not (block.training and torch.is_grad_enabled()):
            return inner(*args, **kwargs)
        return checkpointed(block, inner, args, kwargs)

    return forward
