"""The random number streams that reading a sample may draw from."""

import functools
import random
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

DEPTH = 4
CALLS = 3
"""Depth to which functions that a function names are followed."""
_GOLDEN, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1
ITEMS = 64
_PLAIN = (int, float, str, bytes, bool, complex, type(None))


class Streams:
    """The global generators, and those that objects keep or name."""

    def __init__(self, *owners: object) -> None:
        found = {id(each): each for owner in owners for each in generators(owner)}
        self._own = list(found.values())

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Leave all streams as they were before the block."""
        before = self.state()
        try:
            yield
        finally:
            self.restore(before)

    def seed(self, value: int) -> None:
        """Seed every stream from one 64-bit number; an object's own ones each in its own way."""
        torch.default_generator.manual_seed(value >> 1)
        random.seed(value)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(value & 0xFFFFFFFF)
        for number, generator in enumerate(self._own, 1):
            _seed(generator, (value + number * _GOLDEN) & _MASK)

    def state(self) -> list[Any]:
        """Return every stream's state, to compare and to put back."""
        numpy = sys.modules.get("numpy")
        legacy = numpy.random.get_state(legacy=False) if numpy else None
        return [
            torch.get_rng_state(),
            random.getstate(),
            legacy,
            *(generator_state(generator) for generator in self._own),
        ]

    def restore(self, state: list[Any]) -> None:
        """Put back what `state` gave."""
        torch.set_rng_state(state[0])
        random.setstate(state[1])
        if state[2] is not None:
            sys.modules["numpy"].random.set_state(state[2])
        for generator, was in zip(self._own, state[3:], strict=True):
            _set(generator, was)


def generators(owner: object) -> list[Any]:
    """Return the random number generators that reading from `owner` may draw from, each once.

    Those among its attributes (see `attributes`), and those that its methods and its functions name
    among the globals of their modules or in the scopes around them.
    """
    found: dict[int, Any] = {}
    seen: set[int] = set()
    for value in (owner, *(value for _, value in attributes(owner))):
        for each in (value, *_named(value, seen)):
            if is_generator(each):
                found.setdefault(id(each), each)
    return list(found.values())


def unseedable(owner: object) -> list[str]:
    """Return where `owner` keeps generators that draw from the operating system."""
    return [name for name, value in attributes(owner) if isinstance(value, random.SystemRandom)]


def _named(value: object, seen: set[int]) -> Iterator[object]:
    """Yield what the code of a function, or of an object's reading methods, refers to by name."""
    functions: list[tuple[object, int]] = [(value, 0)]
    if not isinstance(value, (types.FunctionType, types.ModuleType, type)):
        methods = ("__getitem__", "__getitems__", "__call__", "forward")
        functions = [(getattr(type(value), name, None), 0) for name in methods]
    while functions:
        function, depth = functions.pop()
        code = getattr(function, "__code__", None)
        if code is None or id(code) in seen or depth > CALLS:
            continue
        seen.add(id(code))
        for each in _references(function, code):
            yield each
            functions.append((each, depth + 1))


def _references(function: object, code: types.CodeType) -> list[object]:
    space = getattr(function, "__globals__", {})
    found = [space[name] for name in code.co_names if name in space]
    for cell in getattr(function, "__closure__", None) or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not yet filled
            continue
    return found


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
    queue: list[tuple[str, object, int]] = [("", owner, 0)]
    while queue:
        path, value, depth = queue.pop()
        if id(value) in seen or depth > DEPTH:
            continue
        seen.add(id(value))
        for name, child in _parts(value):
            yield f"{path}.{name}", child
            if not isinstance(child, _PLAIN):
                queue.append((f"{path}.{name}", child, depth + 1))


def _parts(value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, functools.partial):
        yield from (("func", value.func), ("args", value.args), ("keywords", value.keywords))
    elif isinstance(value, (list, tuple)):
        if len(value) <= ITEMS:
            yield from ((str(index), item) for index, item in enumerate(value))
    elif isinstance(value, dict):
        if len(value) <= ITEMS:
            yield from ((str(key), item) for key, item in value.items())
    elif not isinstance(value, (type, torch.Tensor)) and hasattr(value, "__dict__"):
        yield from list(vars(value).items())


def is_generator(value: object) -> bool:
    """Whether a value is a random number generator that can be seeded."""
    if isinstance(value, (torch.Generator, random.Random)):
        return not isinstance(value, random.SystemRandom)
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(
        value, (numpy.random.Generator, numpy.random.RandomState)
    )


def generator_state(generator: torch.Generator) -> object:
    """Return what `generator` draws from next."""
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, random.Random):
        return generator.getstate()
    if hasattr(generator, "bit_generator"):
        return generator.bit_generator.state
    return generator.get_state(legacy=False)


def _set(generator: torch.Generator, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def _seed(generator: torch.Generator, value: int) -> None:
    if isinstance(generator, torch.Generator):
        generator.manual_seed(value >> 1)
    elif isinstance(generator, random.Random):
        generator.seed(value)
    elif hasattr(generator, "bit_generator"):
        bits = generator.bit_generator
        bits.state = type(bits)(value).state
    else:
        generator.seed(value & 0xFFFFFFFF)
