"""The random number streams that reading a sample may draw from."""

import random
import sys
from collections.abc import Iterator
from typing import Any

import torch

DEPTH = 4
ITEMS = 64
_PLAIN = (int, float, str, bytes, bool, complex, type(None))


class Streams:
    """The global generators, and those that an object keeps among its attributes."""

    def __init__(self, owner: object) -> None:
        self._own = [value for _, value in attributes(owner) if _is_generator(value)]

    def state(self) -> list[Any]:
        """Return every stream's state, to compare and to put back."""
        numpy = sys.modules.get("numpy")
        legacy = numpy.random.get_state(legacy=False) if numpy else None
        return [
            torch.get_rng_state(),
            random.getstate(),
            legacy,
            *(_get(generator) for generator in self._own),
        ]

    def restore(self, state: list[Any]) -> None:
        """Put back what `state` gave."""
        torch.set_rng_state(state[0])
        random.setstate(state[1])
        if state[2] is not None:
            sys.modules["numpy"].random.set_state(state[2])
        for generator, was in zip(self._own, state[3:], strict=True):
            _set(generator, was)


def same(one: Any, other: Any) -> bool:
    """Whether two states are equal."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, list):
        return all(map(same, one, other))
    if isinstance(one, dict):
        return all(same(one[key], other[key]) for key in one)
    if hasattr(one, "tobytes"):
        return bool(one.tobytes() == other.tobytes())
    return bool(one == other)


def attributes(owner: object) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of what an object is made of: attributes, and short lists of them.

    Arrays, tensors, modules and anything deeper than a few levels are not opened.
    """
    seen: set[int] = set()
    queue: list[tuple[str, Any, int]] = [("", owner, 0)]
    while queue:
        path, value, depth = queue.pop()
        if id(value) in seen or depth > DEPTH:
            continue
        seen.add(id(value))
        for name, child in _parts(value):
            yield f"{path}.{name}", child
            if not isinstance(child, _PLAIN):
                queue.append((f"{path}.{name}", child, depth + 1))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        if len(value) <= ITEMS:
            yield from ((str(index), item) for index, item in enumerate(value))
    elif isinstance(value, dict):
        if len(value) <= ITEMS:
            yield from ((str(key), item) for key, item in value.items())
    elif not isinstance(value, (type, torch.Tensor)) and hasattr(value, "__dict__"):
        yield from list(vars(value).items())


def _is_generator(value: Any) -> bool:
    if isinstance(value, (torch.Generator, random.Random)):
        return not isinstance(value, random.SystemRandom)
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(
        value, (numpy.random.Generator, numpy.random.RandomState)
    )


def _get(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, random.Random):
        return generator.getstate()
    if hasattr(generator, "bit_generator"):
        return generator.bit_generator.state
    return generator.get_state(legacy=False)


def _set(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)
