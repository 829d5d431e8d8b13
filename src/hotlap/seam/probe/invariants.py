"""Loop invariants: work of a step whose result is the same at every step.

In two steps each operator of the training thread gets a *signature*: a hash of its name, its plain
arguments and the signatures of the tensors that it reads. A tensor from before the step is known by
its identity, by its version and by how often its memory was written to, one that the step made by
the operators that made it. An operator with the same signature in both steps, which draws no random
numbers and records no gradients, has the same result. What is made to be written into does not
count.
"""

import sys
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from types import CodeType

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from hotlap.core.protocol import Invariant
from hotlap.seam.probe.diagnosis import Diagnosis
from hotlap.seam.where import Lines, users_lines

LITTLE = 0.01
"""Part of a step's time in operators below which invariant work is not reported."""
FEW = 16
"""Elements up to which a tensor of the CPU is compared by its values."""
LOOKED_AT = 1 << 16
"""Elements, evenly spaced, that are compared of memory that others than torch may write to."""
DEEPEST = 32

Place = tuple[CodeType, int]
"""A line of a function."""


class _VariesError(Exception):
    """What an operator reads is not known to be the same at every step."""


@dataclass(eq=False)
class _Run:
    """An operator that ran: the user's lines, the innermost first, and its seconds.

    `before`: of each memory that it makes a view of, or writes to, the operator that did so last.
    """

    lines: Lines
    signature: int | None = None
    seconds: float = 0.0
    writes: bool = False
    before: list["_Run"] = field(default_factory=list)


@dataclass
class _Storage:
    """Memory that the step has made; `written`: by what (None: what varies).

    `last`: the last operator that made a view of it, or wrote to it.
    """

    written: int | None = 0
    last: _Run | None = None

    def touched(self, run: _Run) -> None:
        """An operator has made this memory, or a view of it, or has written to it."""
        if self.last is not None and self.last is not run:
            run.before.append(self.last)
        self.last = run


class Invariants(Diagnosis):
    """Follows two steps along the other diagnoses; lists the lines with invariant work."""

    name = "invariants"
    _mode: "_Signatures | None" = None

    def begin(self) -> None:
        """Follow the first step."""
        self._mode = _Signatures()
        self._entered = ExitStack()
        self._entered.enter_context(self._mode)
        self._first: list[_Run] | None = None

    def between(self) -> None:
        """Follow the second step, then no more; leave the mode once it is the innermost."""
        if self._mode is None:
            return
        if self._first is None:
            self._first = self._mode.restart()
        elif not self._mode.off:
            self._mode.off = True
            self.value = invariant_lines(self._mode.restart(), self._first)
        if self._mode.off and _get_current_dispatch_mode() is self._mode:
            self.end()

    def end(self) -> None:
        """Leave the mode where that has not been done."""
        if self._mode is not None:
            self._mode.off = True
            self._mode = None
            self._entered.close()


class _Signatures(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes each operator outside of backward passes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.off = False
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        self._numbers = 0
        self._writes: Counter[int] = Counter()
        self._forget()

    def restart(self) -> list[_Run]:
        """A step is over: what ran in it."""
        runs = self._runs
        self._forget()
        return runs

    def _forget(self) -> None:
        self._runs: list[_Run] = []
        self._made: dict[int, tuple[weakref.ref[torch.Tensor], int | None, int | None]] = {}
        self._storages: dict[int, _Storage] = {}

    def __torch_dispatch__(
        self,
        func: OpOverload[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run one operator, and note it."""
        kwargs = kwargs or {}
        if self.off or torch._C._current_graph_task_id() != -1:
            return func(*args, **kwargs)
        run = _Run(users_lines(sys._getframe(1), DEEPEST))
        with suppress(Exception):  # _VariesError, or a tensor that is odd: the program goes on
            run.signature = self._signature(func, args, kwargs)
        began = time.perf_counter()
        result = func(*args, **kwargs)
        run.seconds = time.perf_counter() - began
        self._runs.append(run)
        with suppress(Exception):
            self._note(run, func, args, kwargs, result)
        return result

    def _signature(self, func: OpOverload[..., object], args: object, kwargs: object) -> int | None:
        """The operator's signature; None where its result may differ at the next step."""
        if func.namespace != "aten" or torch.Tag.nondeterministic_seeded in func.tags:
            return None
        read = _tensors((args, kwargs))
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in read):
            return None
        return hash((func, self._key(args), self._key(kwargs)))

    def _key(self, value: object) -> Hashable:
        """What stands for an argument in a signature."""
        if isinstance(value, torch.Tensor):
            return self._of(value)
        if isinstance(value, dict):
            return tuple((name, self._key(each)) for name, each in value.items())
        if isinstance(value, (list, tuple)):
            return tuple(self._key(each) for each in value)
        return type(value), value

    def _of(self, tensor: torch.Tensor) -> int:
        """A tensor's signature."""
        made = self._made.get(id(tensor))
        if made is None or made[0]() is not tensor:
            return self._of_another_step(tensor)
        _, signature, then = made
        storage = self._storages.get(_address(tensor))
        now = storage.written if storage else 0
        if signature is None or now is None:
            raise _VariesError
        return signature if now == then else hash((signature, now))

    def _of_another_step(self, tensor: torch.Tensor) -> int:
        """The signature of a tensor that no operator of this step has made."""
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):  # to read it may communicate
            raise _VariesError
        if tensor.device.type == "cpu" and tensor.numel() <= FEW:
            return hash((tensor.dtype, tensor.shape, str(tensor.tolist())))
        writes = self._writes[_address(tensor)]
        return hash((self._number(tensor), tensor._version, writes, _contents(tensor)))

    def _number(self, tensor: torch.Tensor) -> int:
        """The number of a tensor that was there before the step; no other gets the same."""
        known = self._known.get(id(tensor))
        if known is None or known[0]() is not tensor:
            self._numbers += 1
            known = self._known[id(tensor)] = (weakref.ref(tensor), self._numbers)
        return known[1]

    def _note(
        self,
        run: _Run,
        func: OpOverload[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        result: object,
    ) -> None:
        """Remember what the operator has made and written to."""
        written = _tensors(_written(func, args, kwargs))
        for tensor in written:
            self._write(tensor, run)
        there = {_address(tensor) for tensor in _tensors((args, kwargs))}
        for tensor in _tensors(result):
            if any(tensor is one for one in written):
                continue
            at = _address(tensor)
            if at not in there:
                self._storages[at] = _Storage()
            storage = self._storages.get(at)
            if storage is not None:
                storage.touched(run)
            then = storage.written if storage else 0
            self._made[id(tensor)] = (weakref.ref(tensor), run.signature, then)

    def _write(self, tensor: torch.Tensor, run: _Run) -> None:
        made, at = self._made.get(id(tensor)), _address(tensor)
        self._writes[at] += 1
        if made is None or made[0]() is not tensor:
            self._storages[at] = _Storage()  # what is known there was of memory that is freed
        storage = self._storages.setdefault(at, _Storage())
        run.writes = True
        storage.touched(run)
        if run.signature is None or storage.written is None:
            storage.written = None
        else:
            storage.written = hash((storage.written, run.signature))


def _written(
    func: OpOverload[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> Iterator[object]:
    """The arguments that an operator writes to."""
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            by_name = kwargs.get(argument.name)
            yield args[position] if position < len(args) else by_name


def _tensors(values: object) -> list[torch.Tensor]:
    """The tensors among values, looking into containers."""
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, dict):
        values = values.values()
    if isinstance(values, Iterable) and not isinstance(values, str):
        return [tensor for value in values for tensor in _tensors(value)]
    return []


def _address(tensor: torch.Tensor) -> int:
    """What tells the memory of a tensor from all other that is in use."""
    return int(tensor.untyped_storage()._cdata)


def _contents(tensor: torch.Tensor) -> int:
    """What lies in memory that NumPy or another process may write to; 0 for torch's own."""
    storage = tensor.untyped_storage()
    if storage.resizable() and not storage.is_shared():
        return 0
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise _VariesError
    flat = tensor.detach().reshape(-1)
    return hash(tuple(flat[:: max(1, len(flat) // LOOKED_AT)].tolist()))


def invariant_lines(runs: list[_Run], before: list[_Run]) -> list[Invariant]:
    """The lines of the user's with work that the step before did as well.

    A line all of whose operators are invariant stands for all that it calls.
    """
    invariant = set(_invariant(runs, {run.signature for run in before} - {None}))
    mixed = {place for run in runs if run not in invariant for place in run.lines}
    chosen: dict[Place, float] = defaultdict(float)
    for run in invariant:
        if run.lines:
            outermost = (place for place in reversed(run.lines) if place not in mixed)
            chosen[next(outermost, run.lines[0])] += run.seconds
    blocks = _blocks(chosen, mixed)
    least = LITTLE * sum(run.seconds for run in runs)
    found = (_told(block, chosen, in_part=block[0] in mixed) for block in blocks)
    return [one for one in found if one.seconds >= least]


def _invariant(runs: list[_Run], known: set[int | None]) -> Iterator[_Run]:
    """The operators with a known signature, but for those in whose memory others come to lie."""
    lost: set[_Run] = set()
    for run in reversed(runs):
        if run in lost or (run.writes and run.signature not in known):
            lost.update(run.before)
        elif run.signature in known:
            yield run


def _blocks(chosen: dict[Place, float], mixed: set[Place]) -> list[list[Place]]:
    """The lines with invariant work, together where no other work lies on or between them."""
    blocks: list[list[Place]] = []
    open_to = None  # the function whose lines may join the last block
    for place in sorted({*chosen, *mixed}, key=lambda p: (p[0].co_filename, id(p[0]), p[1])):
        if place in mixed or open_to is not place[0]:
            blocks += [[place]] if place in chosen else []
        else:
            blocks[-1].append(place)
        open_to = None if place in mixed else place[0]
    return blocks


def _told(block: list[Place], seconds: dict[Place, float], *, in_part: bool) -> Invariant:
    code, costliest = max(block, key=lambda place: seconds[place])
    whole = sum(seconds[place] for place in block)
    return Invariant(code.co_filename, costliest, block[0][1], block[-1][1], whole, in_part)
