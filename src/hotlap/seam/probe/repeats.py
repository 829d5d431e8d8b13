"""Work that a step does more than once: the same operators on the same tensors.

What stands for an operator is a hash of its name, its plain arguments and its tensors: one that the
step made goes by the operator that made it, any other by its identity; both by how often they were
written to. Two runs that have the same hash have the same result, unless they draw random numbers:
what those make goes by its identity as well.
"""

import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from types import CodeType
from typing import Protocol, TypeVar

import torch
from torch._ops import OpOverload

from hotlap.core.protocol import Avoidable
from hotlap.seam.where import Lines

Place = tuple[CodeType, int]
"""A line of a function."""
PLAIN = (
    int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout,
    torch.memory_format,
)  # fmt: skip
"""Arguments that are known by their words."""
LITTLE = 0.01
"""Part of a step's time in operators below which work that comes again, in the step or in the next
one, is not reported."""
LEAST_PART = 0.3
"""Part of a line's time in operators that comes again, below which the line is not to blame: it may
be a library that does a little of its work twice."""


DETACH = torch.ops.aten.detach.default
"""No work of the user's. Torch itself calls it for a result of, say, `torch.ones` that something
else still refers to: a thread that samples stacks occasionally does."""


class Called(Protocol):
    """An operator, called by an instruction of a frame."""

    func: OpOverload[..., object]
    call: tuple[int, int]


class Ran(Protocol):
    """An operator that ran: `twin` stands for it (None: not known).

    Nothing is saved where it is `idle`, or `writes`: it has more than a result then.
    `parametrized`: it computes a weight that `torch.nn.utils.parametrize` makes of others.
    """

    lines: Lines
    twin: Hashable
    seconds: float
    idle: bool
    writes: bool
    differentiated: bool
    parametrized: bool


class Twins:
    """Gives what stands for each operator of a step."""

    def __init__(self, known: Callable[[torch.Tensor], Hashable]) -> None:
        """`known` gives what stands for a tensor from before the step."""
        self._known = known
        self._made: dict[int, tuple[weakref.ref[torch.Tensor], Hashable]] = {}
        self._writes: Counter[int] = Counter()
        self._unknown = 0

    def of(self, func: OpOverload[..., object], args: object, kwargs: object) -> Hashable:
        """What stands for an operator; None where its result may be another one each time."""
        if func.namespace != "aten" or torch.Tag.nondeterministic_seeded in func.tags:
            return None
        with suppress(Exception):  # _UnknownError, or a tensor that is odd
            return hash((func, self._key(args), self._key(kwargs)))
        return None

    def made(self, tensors: Iterable[torch.Tensor], twin: Hashable) -> None:
        """An operator has made these, or written to them; one that is not known made them once."""
        if twin is None:
            self._unknown += 1
            twin = "unknown", self._unknown
        for output, tensor in enumerate(tensors):
            if not isinstance(tensor, torch.nn.Parameter):  # it goes by its address, and its writes
                self._made[id(tensor)] = (weakref.ref(tensor), (twin, output))

    def wrote(self, tensor: torch.Tensor) -> None:
        """An operator has written to a tensor: to its memory, of which others may be views."""
        self._writes[address(tensor)] += 1

    def _key(self, value: object) -> Hashable:
        if isinstance(value, torch.Tensor):
            ref, twin = self._made.get(id(value), (None, None))
            if ref is not None and ref() is value:
                return twin, value._version
            return self._known(value), value._version, self._writes[address(value)]
        if isinstance(value, dict):
            return tuple((name, self._key(each)) for name, each in value.items())
        if isinstance(value, (list, tuple)):
            return tuple(map(self._key, value))
        if not isinstance(value, PLAIN):  # a storage, whose bytes would be read one by one
            raise _UnknownError
        return type(value), repr(value)  # -1 and -2 have the same hash


def address(tensor: torch.Tensor) -> int:
    """What tells the memory of a tensor from all other that is in use."""
    return int(tensor.untyped_storage()._cdata)


class _UnknownError(Exception):
    """An argument is not known."""


def saved_by_autograd(run: Called, before: Called) -> bool:
    """Whether it is the `detach` by which autograd saves what the one before made: in one call."""
    return run.func is DETACH and before.call == run.call


def standing_for(lines: Lines, mixed: Container[Place]) -> Place:
    """The outermost line without other work, which stands for all it calls; else the innermost."""
    return next((place for place in reversed(lines) if place not in mixed), lines[0])


def _saves(run: Ran) -> bool:
    """Whether time is saved where an operator does not run again."""
    return bool(run.lines) and not (run.idle or run.writes)


class Placed(Protocol):
    """What a line of a file does."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def line(self) -> int:
        """The line, from 1."""


At = TypeVar("At", bound=Placed)


def in_both(step: Iterable[At], before: Iterable[At]) -> list[At]:
    """What was found in a step, of the lines with the same in the step before."""
    there = {(one.path, one.line) for one in before}
    return [one for one in step if (one.path, one.line) in there]


class Marked(Protocol):
    """An operator that ran."""

    lines: Lines
    seconds: float
    differentiated: bool


def marked_lines(runs: Sequence[Marked], before: Sequence[Marked], mark: str) -> list[Avoidable]:
    """The lines of the user's with operators whose `mark` is a number above 0, in both steps."""
    return in_both(_marked(runs, mark), _marked(before, mark))


def _marked(runs: Sequence[Marked], mark: str) -> Iterator[Avoidable]:
    whole: dict[Place, float] = defaultdict(float)
    found: dict[Place, list[Marked]] = defaultdict(list)
    for run in runs:
        for place in run.lines[:1]:
            whole[place] += run.seconds
            if getattr(run, mark):
                found[place].append(run)
    total = sum(run.seconds for run in runs)
    for place, marked in found.items():
        spent = sum(run.seconds for run in marked)
        if spent >= LITTLE * total:
            costliest = max(marked, key=lambda run: run.seconds)
            yield Avoidable(
                place[0].co_filename, place[1], getattr(costliest, mark), spent / whole[place],
                spent / total, costliest.differentiated,
            )  # fmt: skip


Run = TypeVar("Run", bound=Marked)


def vain_lines(
    computing: Iterable[Run], mixed: Container[Place], total: float,
    in_vain: Callable[[Run], float], times: Callable[[Run], int], least: float = LEAST_PART,
) -> Iterator[Avoidable]:  # fmt: skip
    """The lines of the user's that compute something in vain, if it is more than a little.

    `in_vain`: the seconds of an operator that need not be; `times`: what to say of the costliest.
    `mixed`: lines with other work as well; `total`: seconds of all operators of the step;
    `least`: the part of a line's time that is in vain, below which the line is not to blame.
    """
    whole: dict[Place, float] = defaultdict(float)
    chosen: dict[Place, list[Run]] = defaultdict(list)
    for run in computing:
        for place in set(run.lines):
            whole[place] += run.seconds
        if run.lines and in_vain(run):
            chosen[standing_for(run.lines, mixed)].append(run)
    for place, found in chosen.items():
        spent = sum(map(in_vain, found))
        if spent >= LITTLE * total and spent >= least * whole[place]:
            costliest = max(found, key=in_vain)
            yield Avoidable(
                place[0].co_filename, place[1], times(costliest), spent / whole[place],
                spent / total, costliest.differentiated,
            )  # fmt: skip


def repeated_lines(runs: Sequence[Ran]) -> list[Avoidable]:
    """The lines of the user's whose work, or a good part of it, a step has done before.

    A line all of whose operators come several times stands for all that it calls.
    """
    groups: dict[Hashable, list[Ran]] = defaultdict(list)
    for run in runs:
        if run.twin is not None:
            groups[run.twin].append(run)
    mixed = {
        place
        for run in runs
        if run.twin is None or len(groups[run.twin]) < 2
        for place in run.lines
    }
    seconds: dict[Place, float] = defaultdict(float)
    whole: dict[Place, float] = defaultdict(float)
    times: Counter[Place] = Counter()
    differentiated: set[Place] = set()
    for group in groups.values():
        for run in filter(_saves, group[1:]):
            if run.parametrized:
                continue
            place = standing_for(run.lines, mixed)
            seconds[place] += run.seconds
            times[place] = max(times[place], len(group))
            differentiated.update((place,) if run.differentiated else ())
    for run in filter(_saves, runs):
        for place in {*run.lines} & seconds.keys():
            whole[place] += run.seconds
    total = sum(run.seconds for run in runs)
    return [
        Avoidable(
            place[0].co_filename, place[1], times[place], spent / whole[place], spent / total,
            place in differentiated,
        )
        for place, spent in seconds.items()
        if spent >= LITTLE * total and spent >= LEAST_PART * whole[place]
    ]  # fmt: skip


def parametrized_work(runs: Sequence[Ran]) -> list[Avoidable]:
    """What a step spends on weights of parametrized layers that it has computed before.

    One cache for all of them saves it, so that the costliest line stands for the others.
    """
    came: Counter[Hashable] = Counter()
    seconds: dict[Place, float] = defaultdict(float)
    whole: dict[Place, float] = defaultdict(float)
    for run in filter(_saves, runs):
        whole[run.lines[0]] += run.seconds
        if run.parametrized and run.twin is not None:
            came[run.twin] += 1
            seconds[run.lines[0]] += run.seconds * (came[run.twin] > 1)
    spent, total = sum(seconds.values()), sum(run.seconds for run in runs)
    if not spent or spent < LITTLE * total:
        return []
    code, line = max(seconds, key=lambda place: seconds[place])
    several = [at for of, at in seconds if of is code]
    return [
        Avoidable(
            code.co_filename, line, max(came.values()), spent / sum(whole[one] for one in seconds),
            spent / total, any(run.differentiated for run in runs if run.parametrized),
            min(several) if len(seconds) > 1 else 0,
        )
    ]  # fmt: skip
