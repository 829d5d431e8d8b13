"""Graphs that outlive their step: `running += loss`, outputs appended to a list.

What such a variable holds leads, after each step, to the graph nodes that it led to before. The
variables of the user's functions on the stack are looked at after each diagnostic step, with those
of their modules, and what lies in containers and objects a little below them.
"""

import dis
import sys
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import islice
from types import CodeType, FrameType
from typing import Any

import torch
from torch.autograd.graph import Node

from hotlap.core.protocol import Holder
from hotlap.seam.probe.diagnosis import Diagnosis
from hotlap.seam.where import is_users, is_users_file, short

DEEP = 3
TIMES = 2
MOST_VALUES = 20_000
LATEST = 256
MOST_NODES = 4096
OPTIMIZED = 0x01  # of a code object: a function, whose f_locals are a copy
LOOKING = {"locals", "vars", "eval", "exec"}
CONTAINERS = (list, tuple, set, frozenset, deque)
OPAQUE = (torch.optim.Optimizer, torch.utils.data.DataLoader, torch.utils.data.Dataset)


class Creep(Diagnosis):
    """Follows variables along the other diagnoses; lists those that keep every step's graph."""

    name = "retained"

    def begin(self) -> None:
        """The first look."""
        self._roots = roots_by_holder(sys._getframe())
        self._grew: Counter[Holder] = Counter()

    def between(self) -> None:
        """A step later: who still leads to what it led to, and to more."""
        now = roots_by_holder(sys._getframe())
        self._grew.update(
            holder for holder in now if _grown(now[holder], self._roots.get(holder, set()))
        )
        self._roots = now

    def end(self) -> None:
        """The last look."""
        self.between()
        kept = (
            replace(holder, freed=_freed(self._roots.get(holder, set())))
            for holder, times in self._grew.items()
            if times >= TIMES
        )
        self.value = sorted(kept, key=lambda holder: holder.name)
        self._roots = {}


def _grown(now: set[Node], before: set[Node]) -> bool:
    """Whether the graph nodes `now` are not those from before, but lead to all of them."""
    if not before or now <= before:
        return False
    seen, queue, missing = set(now), deque(now), before - now
    while queue and missing and len(seen) < MOST_NODES:
        for node, _ in queue.popleft().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                missing.discard(node)
                queue.append(node)
    return not missing


def _freed(roots: set[Node]) -> bool:
    """Whether backward passes have freed what the nodes saved, as far as nodes tell."""
    seen, queue, saved = set(roots), deque(roots), False
    while queue and len(seen) < MOST_NODES:
        node = queue.popleft()
        for name in dir(node):
            if name.startswith("_saved_") or name == "saved_tensors":
                try:
                    kept = getattr(node, name)
                except RuntimeError as error:  # another one: changed in place since
                    saved = saved or "already been freed" in str(error)
                    continue
                if _tensors(kept):
                    return False
        following = (inner for inner, _ in node.next_functions if inner is not None)
        fresh = [inner for inner in following if inner not in seen]
        seen.update(fresh)
        queue.extend(fresh)
    return saved


def _tensors(kept: object) -> bool:
    """Whether what a node saved is a tensor, or holds some."""
    if isinstance(kept, (tuple, list)):
        return any(isinstance(one, torch.Tensor) for one in kept)
    return isinstance(kept, torch.Tensor)


def roots_by_holder(frame: FrameType | None) -> dict[Holder, set[Node]]:
    """The graph nodes of the tensors that each variable of the user's functions holds."""
    search, modules = _Search(), set()
    while frame is not None:
        if is_users(frame.f_code):
            path = short(frame.f_code.co_filename)
            if values := _variables(frame):
                search.variables(values, Holder("local", "", path, frame.f_code.co_firstlineno))
            if id(frame.f_globals) not in modules:
                modules.add(id(frame.f_globals))
                search.variables(dict(frame.f_globals), Holder("global", "", path))
        frame = frame.f_back
    return search.found


def _variables(frame: FrameType) -> dict[str, object]:
    """The variables of a function; empty for the body of a module.

    Before Python 3.13 a frame keeps the copy it gives, and with it old tensors, so that it is
    emptied again. The same copy is what `locals()` gives the user: such functions are left alone.
    """
    if not frame.f_code.co_flags & OPTIMIZED:
        return {}
    if sys.version_info >= (3, 13):
        return dict(frame.f_locals)
    if _looks_at_itself(frame.f_code):
        return {}
    values = dict(frame.f_locals)
    frame.f_locals.clear()
    return values


@cache
def _looks_at_itself(code: CodeType) -> bool:
    names = LOOKING.intersection(code.co_names)
    loaded = (step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    return bool(names) and not names.isdisjoint(loaded)


class _Search:
    """Looks into variables; `found` are the graph nodes of the tensors that each one holds."""

    def __init__(self) -> None:
        self.found: dict[Holder, set[Node]] = {}
        self._seen: set[int] = set()
        self._left = MOST_VALUES

    def variables(self, values: Mapping[str, object], owner: Holder) -> None:
        """Search the variables of a function or a module; `owner` lacks their names."""
        for name, value in values.items():
            self._value(value, replace(owner, name=name), DEEP)

    def _value(self, value: Any, holder: Holder, depth: int) -> None:
        kind = type(value)
        self._left -= 1
        if issubclass(kind, torch.Tensor):
            if value.grad_fn is not None:
                self.found.setdefault(holder, set()).add(value.grad_fn)
        elif depth and self._left > 0 and id(value) not in self._seen:
            if kind in CONTAINERS or kind is dict:
                self._seen.add(id(value))
                inner = value.values() if kind is dict else value
                for entry in islice(inner, max(0, len(value) - LATEST), None):
                    self._value(entry, holder, depth - 1)
            elif path := _users_file(kind):
                self._seen.add(id(value))
                for name, entry in _attributes(value).items():
                    self._value(entry, Holder("attribute", name, path), depth - 1)


def _attributes(value: object) -> dict[str, object]:
    if isinstance(value, (type, *OPAQUE)):
        return {}
    try:
        return dict(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        return {}


def _users_file(kind: type) -> str:
    """The file of a class of the user's; empty for others."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return short(file) if file and is_users_file(file) else ""
