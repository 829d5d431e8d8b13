"""Graphs that outlive their step: `running += loss`, outputs appended to a list.

What such a variable holds leads, after each step, to the graph nodes that it led to before. The
variables of the user's functions on the stack are looked at after each diagnostic step, with those
of their modules, and what lies in containers and objects a little below them. What these graphs
and tensors hold more from step to step is what the variable keeps more.
"""

import dis
import sys
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import islice
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Protocol, cast

import torch
from torch.autograd.graph import Node

from hotlap.core.protocol import Holder
from hotlap.memory.owners import Storages, owners
from hotlap.seam.probe.diagnosis import Diagnosis, Followed
from hotlap.seam.where import is_users, is_users_file, short

DEEP = 4
LIBRARY = 2
"""Levels that an object of a library's counts for."""
TIMES = 2
MOST_VALUES = 20_000
LATEST = 256
MOST_NODES = 4096
NODE_BYTES = 500
LITTLE = 2**14
"""Bytes a step below which it is no fault to keep tensors whose graphs are freed: 16 MiB after
1024 steps."""
RAW = "_raw_saved_"
OPTIMIZED = 0x01  # of a code object: a function, whose f_locals are a copy
LOOKING = {"locals", "vars", "eval", "exec"}
PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None)})
CONTAINERS = (list, tuple, set, frozenset, deque, dict)
Roots = dict[Node, weakref.ref[torch.Tensor]]
"""Graph nodes, with the tensors that led to them."""
OPAQUE = (type, ModuleType, FunctionType, torch.nn.Module, torch.optim.Optimizer,
          torch.utils.data.DataLoader, torch.utils.data.Dataset)  # fmt: skip


class Creep(Diagnosis):
    """Follows variables along the other diagnoses; lists those that keep every step's graph."""

    name = "retained"

    @property
    def undecided(self) -> bool:
        """Whether a variable has kept more once, or the same: optimizers may take turns between."""
        return self._same or any(len(times) < TIMES for times in self._added.values())

    def begin(self) -> None:
        """The first look."""
        self._starts: dict[int, int] = {}
        self._roots = roots_by_holder(sys._getframe(), self._starts)
        self._added: dict[Holder, list[tuple[int, Roots]]] = {}
        self._same = False
        self._steps = 0

    def between(self) -> None:
        """A step later: who still leads to what it led to, and to more."""
        now = roots_by_holder(sys._getframe(), self._starts)
        self._steps += 1
        for holder, roots in now.items():
            before = self._roots.get(holder, {})
            if _grown(set(roots), set(before)):
                fresh = {node: of for node, of in roots.items() if node not in before}
                self._added.setdefault(holder, []).append((self._steps, fresh))
        self._same = any(
            roots.keys() == self._roots[holder].keys()
            for holder, roots in now.items()
            if holder in self._roots
        )
        self._roots = now

    def end(self) -> None:
        """The last look."""
        self.between()
        kept = (_weighed(self.rec, *one) for one in self._added.items() if len(one[1]) >= TIMES)
        self.value = sorted(kept, key=lambda holder: holder.name)
        self._roots, self._added = {}, {}


def _weighed(rec: Followed, holder: Holder, added: list[tuple[int, Roots]]) -> Holder:
    """The holder with what it keeps more after each step: `added` by the number of the step.

    What belongs to the model and its optimizer does not count, nor what the first of these steps
    has saved as well, such as an input that stays the same.
    """
    _, known = owners(rec.session.roots.found, list(rec.optimizers))
    saved = _Saved(known)
    saved.read(added[0][1])
    before, held = saved.bytes, saved.held
    for _, roots in added[1:]:
        saved.read(roots)
    steps = added[-1][0] - added[0][0]
    little = (saved.held - held) // steps < LITTLE
    freed = saved.freed and not saved.tensors and little
    return replace(holder, freed=freed, bytes=(saved.bytes - before) // steps)


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


class _Packed(Protocol):
    """torch's `SavedTensor`: what lies in it, as a hook has packed it if there is one."""

    unpack_hook: object
    data: object


class _Saved:
    """Adds up what nodes have saved (bytes); a storage that was counted before adds nothing.

    `held` is what the tensors at the graphs' ends hold of it. What a hook packed is not read: to
    unpack it may recompute a part of the model. Its size is not known.
    """

    def __init__(self, known: Storages) -> None:
        self.bytes = 0
        self.held = 0
        self.tensors = 0
        self.freed = False
        self._known = known
        self._seen: set[Node] = set()

    def read(self, roots: Roots) -> None:
        """Add the roots and the nodes that they lead to; not those that were read before."""
        kept = (tensor for of in roots.values() if (tensor := of()) is not None)
        held = self._known.bytes_of(kept)
        self.held, self.bytes = self.held + held, self.bytes + held
        queue, left = deque(roots.keys() - self._seen), MOST_NODES
        self._seen |= roots.keys()
        while queue and left:
            left -= 1
            node = queue.popleft()
            self._add(node)
            following = {inner for inner, _ in node.next_functions if inner is not None}
            queue.extend(following - self._seen)
            self._seen |= following

    def _add(self, node: Node) -> None:
        self.bytes += NODE_BYTES
        for name in dir(node):
            if not name.startswith(RAW):
                continue
            try:
                found = getattr(node, name)
                for raw in found if isinstance(found, tuple) else (found,):
                    self._count(node, name, raw)
            except RuntimeError as error:  # another one: changed in place since
                self.freed = self.freed or "already been freed" in str(error)

    def _count(self, node: Node, name: str, raw: _Packed) -> None:
        """Add what lies in one place of a node."""
        if raw.unpack_hook is not None:
            self.tensors += 1
        elif isinstance(raw.data, torch.Tensor):
            self.tensors += 1
            self.bytes += self._known.add(raw.data)
        else:  # nothing was saved, or it is freed: then this raises
            getattr(node, name.removeprefix("_raw"))


def roots_by_holder(frame: FrameType | None, starts: dict[int, int]) -> dict[Holder, Roots]:
    """The graph nodes of the tensors that each variable of the user's functions holds.

    `starts`: by identity of a long container, the entry from which on it is read, at each look.
    """
    search, modules = _Search(starts), set()
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

    def __init__(self, starts: dict[int, int]) -> None:
        self.found: dict[Holder, Roots] = {}
        self._starts = starts
        self._seen: set[int] = set()
        self._left = MOST_VALUES

    def variables(self, values: Mapping[str, object], owner: Holder) -> None:
        """Search the variables of a function or a module; `owner` lacks their names."""
        for name, value in values.items():
            self._value(value, replace(owner, name=name), DEEP)

    def _value(self, value: Any, holder: Holder, depth: int) -> None:
        kind = type(value)
        self._left -= kind not in PLAIN
        if issubclass(kind, torch.Tensor):
            if value.grad_fn is not None:
                self.found.setdefault(holder, {})[value.grad_fn] = weakref.ref(value)
        elif depth > 0 and self._left > 0 and id(value) not in self._seen:
            if base := next((one for one in CONTAINERS if issubclass(kind, one)), None):
                self._seen.add(id(value))
                for entry in self._entries(value, base):
                    self._value(entry, holder, depth - 1)
            elif attributes := _attributes(value):
                self._seen.add(id(value))
                path = _users_file(value if issubclass(kind, type) else kind)
                for name, entry in attributes.items():
                    inner = Holder("attribute", name, path) if path else holder
                    self._value(entry, inner, depth - (1 if path else LIBRARY))

    def _entries(self, value: Any, base: Any) -> Iterator[object]:
        """The latest entries of a container; at each look from the same one on.

        They are read as `base` does it: the user's `__iter__` might draw random numbers. A deque
        of limited length grows only until it is full.
        """
        if base is deque and deque.maxlen.__get__(value) is not None:
            return iter(())
        latest = max(0, base.__len__(value) - LATEST)
        start = min(self._starts.setdefault(id(value), latest), latest)
        return islice(dict.values(value) if base is dict else base.__iter__(value), start, None)


def _attributes(value: object) -> dict[str, object]:
    """The attributes of an object; of a module and the like only where its class is the user's."""
    kind = cast(type, value) if issubclass(type(value), type) else type(value)
    if issubclass(type(value), OPAQUE) and not _users_file(kind):
        return {}
    try:
        return dict(vars(kind) if kind is value else object.__getattribute__(value, "__dict__"))
    except AttributeError:
        return {}


def _users_file(kind: type) -> str:
    """The file of a class of the user's; empty for others."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return short(file) if file and is_users_file(file) else ""
