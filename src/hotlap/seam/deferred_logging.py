"""Numbers that the program only prints, read from the device a step later.

`.item()` makes the CPU wait until the device has done all that was queued. Where the source shows
that the number is only printed (`hotlap.seam.printed_only`), the read begins a copy to the CPU and
returns a `Later`. `print`, a logger and `SummaryWriter.add_scalar` put what holds one into a queue.
It is written, in the order of the calls, when the copy has arrived, at the latest a step later, and
before the program writes anything else to its output, opens that file, asks for input, starts a
program, forks or ends. Text with a number still to come holds a mark in its place.
"""

import builtins
import itertools
import logging
import operator
import os
import re
import secrets
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from io import TextIOWrapper
from types import CodeType, FrameType, ModuleType
from typing import Any

import torch

from hotlap.common.plain import PLAIN
from hotlap.seam.file_barrier import Watched, watching
from hotlap.seam.hook import when_imported
from hotlap.seam.moves import Context
from hotlap.seam.patch import replaced
from hotlap.seam.printed_only import Position, Sinks, printed_only
from hotlap.seam.process import at_exit
from hotlap.seam.steps import step_hooks
from hotlap.seam.where import is_users

Number = int | float
LONGEST_CHAIN = 64
"""Numbers that a sum may wait for; the device is behind by fewer steps."""
EXACT_INTEGER = 2**53
MOST_MARKS, MOST_FIELDS = 1000, 100
_PLAIN = {str, int, float, bool, type(None)}
_SETTINGS = (
    (logging.Logger, "addHandler"), (logging.Logger, "removeHandler"), (logging.Logger, "setLevel"),
    (logging.Handler, "setLevel"), (logging.Handler, "setFormatter"), (logging.Handler, "close"),
    (logging.FileHandler, "close"), (logging.Filterer, "addFilter"),
    (logging.Filterer, "removeFilter"),
)  # fmt: skip
"""What decides how a record is written: called while one waits, it finds it written."""
_WRITER = "torch.utils.tensorboard.writer"


@contextmanager
def deferred_logging(context: Context) -> Iterator[None]:
    """Read numbers that are only printed a step later."""
    output = _Output()
    reads = _Reads(context, output)
    forget = at_exit(output.write)
    with ExitStack() as stack:
        stack.callback(forget)
        stack.callback(output.guards.close)
        stack.callback(output.write)
        _forking.append(output)
        stack.callback(_forking.remove, output)
        stack.enter_context(watching(Watched(output.files, output.write)))
        stack.enter_context(step_hooks(None, lambda _: output.turn()))
        stack.enter_context(replaced(torch.Tensor, "item", reads.item))
        stack.enter_context(replaced(torch.Tensor, "__format__", reads.formatted))
        stack.enter_context(replaced(builtins, "print", output.printing))
        stack.enter_context(replaced(logging.Logger, "handle", output.logging))
        for owner, name in ((builtins, "input"), *_SETTINGS):
            stack.enter_context(replaced(owner, name, output.before))
        when_imported(_WRITER, lambda module: _defer_scalars(module, output, stack))
        yield


class Later:
    """A number on its way from the device. Sums of it and plain numbers are on their way too.

    `like` is a number of the same type: what Python would refuse to do with it is refused at once.
    """

    __slots__ = ("_find", "_number", "_ready", "chain", "like", "output")
    __array_ufunc__ = None  # numpy's numbers leave the sum to us

    def __init__(
        self, output: "_Output", like: Number, ready: Callable[[], bool],
        find: Callable[[], Number], chain: int = 1,
    ) -> None:  # fmt: skip
        self.output, self.like, self.chain = output, like, chain
        self._ready: Callable[[], bool] | None = ready
        self._find: Callable[[], Number] | None = find
        self._number: Number = like

    def ready(self) -> bool:
        """Whether the number is there, so that nothing needs to wait for it."""
        return self._ready is None or self._ready()

    def number(self) -> Number:
        """The number; waits for the device where it must."""
        if self._find is not None:
            self._number = self._find()
            self._find = self._ready = None
        return self._number

    def __format__(self, spec: str) -> str:
        if self.ready():
            return format(self.number(), spec)
        format(self.like, spec)
        return self.output.mark(self, spec)

    def __str__(self) -> str:
        return str(self.number())

    def __add__(self, other: object) -> object:
        return _combined(operator.add, self, other)

    def __radd__(self, other: object) -> object:
        return _combined(operator.add, other, self)

    def __sub__(self, other: object) -> object:
        return _combined(operator.sub, self, other)

    def __rsub__(self, other: object) -> object:
        return _combined(operator.sub, other, self)

    def __mul__(self, other: object) -> object:
        return _combined(operator.mul, self, other)

    def __rmul__(self, other: object) -> object:
        return _combined(operator.mul, other, self)

    def __truediv__(self, other: object) -> object:
        return _combined(operator.truediv, self, other)

    def __rtruediv__(self, other: object) -> object:
        return operator.truediv(other, self.number())  # which may be a division by zero


def _now(value: object) -> object:
    return value.number() if type(value) is Later else value


def _combined(act: Callable[[Any, Any], Any], a: Any, b: Any) -> object:
    """`act(a, b)`, of which one is a `Later`: later as well, if nothing can go wrong by then."""
    laters = [x for x in (a, b) if type(x) is Later]
    plain = [x for x in (a, b) if type(x) is not Later]
    safe = all(type(x) is float or (type(x) in _PLAIN and type(x) is not str and x is not None
                                    and abs(x) < EXACT_INTEGER) for x in plain)  # fmt: skip
    chain = sum(x.chain for x in laters)
    divides = act is operator.truediv and not (plain and b)
    if not safe or divides or chain >= LONGEST_CHAIN or all(x.ready() for x in laters):
        return act(_now(a), _now(b))
    like = act(*(x.like if type(x) is Later else x for x in (a, b)))
    return Later(laters[0].output, like, lambda: all(x.ready() for x in laters),
                 lambda: act(_now(a), _now(b)), chain)  # fmt: skip


@dataclass(eq=False)
class _Job:
    """One call that waits to write: `laters` must have arrived, `site` is the line that called."""

    site: object
    laters: list[Later]
    act: Callable[[], object]
    turns: int = 0


class _Output:
    """Calls that wait to write, in their order."""

    def __init__(self) -> None:
        self.guards = ExitStack()
        self._jobs: deque[_Job] = deque()
        self._marks: dict[str, tuple[Later, str]] = {}
        self._mark = re.compile(f"\ue000{secrets.token_hex(8)}-[0-9]+\ue001")
        self._count = itertools.count()
        self._guarded: list[TextIOWrapper] = []
        self._lock = threading.RLock()
        self._writing = False

    def begin(self) -> None:
        """A number is on its way: from here on, whatever writes to the output comes by here."""
        for stream in {sys.__stdout__, sys.__stderr__}:
            if type(stream) is TextIOWrapper and stream not in self._guarded:
                self._guarded.append(stream)
                for name in ("write", "writelines", "flush", "close", "detach"):
                    self.guards.enter_context(replaced(stream, name, self.before))

    def mark(self, later: Later, spec: str) -> str:
        """Text that stands for a number until it is there."""
        if len(self._marks) >= MOST_MARKS:  # of records below a logger's level, which nobody writes
            self.write()
            self._marks = dict(list(self._marks.items())[-MOST_FIELDS:])
        text = f"{self._mark.pattern.partition('-')[0]}-{next(self._count)}\ue001"
        self._marks[text] = later, spec
        return text

    def write(self, last: _Job | None = None) -> None:
        """Write all that waits, or up to one call of it, waiting for the device."""
        with self._lock:
            if self._writing:
                return
            self._writing = True
            try:
                while self._jobs:
                    job = self._jobs.popleft()
                    job.act()
                    if job is last:
                        break
            finally:
                self._writing = False

    def turn(self) -> None:
        """A step is over: write what waited when the one before it was, and what is there."""
        due = None
        for job in self._jobs:
            if not job.turns and not all(later.ready() for later in job.laters):
                break
            due = job
        for job in self._jobs:
            job.turns += 1
        if due is not None:
            self.write(due)

    def before(self, original: Callable[..., object]) -> object:
        """Write all that waits before this function does anything."""

        @wraps(original)
        def call(*args: object, **kwargs: object) -> object:
            if self._jobs or self._writing:
                self.write()
            return original(*args, **kwargs)

        return call

    def files(self) -> list[str]:
        """Files to which something waits to be written."""
        if not self._jobs:
            return []
        found = [h.baseFilename for ref in vars(logging)["_handlerList"]
                 if isinstance(h := ref(), logging.FileHandler)]  # fmt: skip
        with suppress(OSError):
            found += [os.readlink(f"/proc/self/fd/{number}") for number in (1, 2)]
        return found or [os.devnull]

    def add(self, site: object, values: tuple[object, ...], act: Callable[[], object]) -> bool:
        """Have a call wait for the numbers in `values`; False where nothing needs to wait."""
        laters = self._laters(values)
        waits = any(not later.ready() for later in laters)
        main = threading.current_thread() is threading.main_thread()
        if not (self._jobs or waits) or not main or self._writing:
            return False
        earlier = [job for job in self._jobs if job.laters and job.site == site]
        if waits and earlier:
            self.write(earlier[-1])
        self._jobs.append(_Job(site, laters, act))
        return True

    def _laters(self, values: tuple[object, ...]) -> list[Later]:
        found = [value for value in values if type(value) is Later]
        for value in values:
            if type(value) is str and self._marks:
                found += [self._marks[mark][0] for mark in self._mark.findall(value)]
        return found

    def resolved(self, value: object) -> object:
        """The value with its numbers; waits for the device where it must."""
        if type(value) is str and self._marks:
            return self._mark.sub(self._formatted, value)
        return _now(value)

    def _formatted(self, mark: re.Match[str]) -> str:
        later, spec = self._marks.pop(mark[0])
        return format(later.number(), spec)

    def printing(self, original: Callable[..., object]) -> object:
        """`print` that waits for numbers on their way."""

        @wraps(original)
        def print(*args: object, **kwargs: object) -> object:  # noqa: A001
            if not self._guarded:
                return original(*args, **kwargs)
            stream = kwargs.get("file") or sys.stdout
            options = {type(kwargs.get(name)) for name in ("sep", "end")}
            plain = all(type(value) in _PLAIN or type(value) is Later for value in args)
            known = options <= _PLAIN and kwargs.keys() <= {"sep", "end", "file", "flush"}
            if plain and known and any(stream is one for one in self._guarded):
                frame = sys._getframe(1)
                fixed = {**kwargs, "file": stream}
                written = lambda: original(*map(self.resolved, args), **fixed)  # noqa: E731
                if self.add((frame.f_code, frame.f_lasti), args, written):
                    return None
            self.write()
            return original(*map(self.resolved, args), **kwargs)

        return print

    def logging(self, original: Callable[..., object]) -> object:
        """`Logger.handle` that waits for numbers on their way."""

        def handled(logger: logging.Logger, record: logging.LogRecord) -> object:
            record.msg = self.resolved(record.msg)
            if isinstance(record.args, tuple):
                record.args = tuple(map(self.resolved, record.args))
            return original(logger, record)

        @wraps(original)
        def handle(logger: logging.Logger, record: logging.LogRecord) -> object:
            if not self._guarded:
                return original(logger, record)
            args = record.args if isinstance(record.args, tuple) else (record.args or None,)
            plain = all(type(v) in _PLAIN or type(v) is Later for v in (record.msg, *args))
            site = (record.pathname, record.lineno)
            written = lambda: handled(logger, record)  # noqa: E731
            if plain and not record.exc_info and self.add(site, (record.msg, *args), written):
                return None
            self.write()
            return handled(logger, record)

        return handle


_forking: list[_Output] = []


def _before_fork() -> None:
    for output in _forking:
        output.write()


os.register_at_fork(before=_before_fork)


def _defer_scalars(module: ModuleType, output: _Output, stack: ExitStack) -> None:
    """Have `SummaryWriter.add_scalar` wait as well, and the writer's other calls write first."""

    def make(original: Callable[..., object]) -> object:
        @wraps(original)
        def add_scalar(
            writer: object, tag: object, value: object, step: object = None, wall: object = None,
            *more: object, **kwargs: object,
        ) -> object:  # fmt: skip
            at = time.time() if wall is None and type(value) is Later else wall

            def written() -> object:
                return original(writer, tag, _now(value), step, at, *more, **kwargs)

            plain = {type(tag), type(step)} <= _PLAIN
            if plain and output.add((id(writer), tag), (value,), written):
                return None
            output.write()
            return written()

        return add_scalar

    first = ("_get_file_writer", "flush", "close")
    names: dict[str, Callable[[Callable[..., object]], object]] = dict.fromkeys(
        first, output.before
    )
    names["add_scalar"] = make
    for name, change in names.items():
        stack.enter_context(replaced(module.SummaryWriter, name, change))


class _Reads:
    """The reads that are put off."""

    def __init__(self, context: Context, output: _Output) -> None:
        self._context = context
        self._output = output
        self._sinks: dict[tuple[CodeType, int], Sinks | None] = {}

    def item(self, original: Callable[..., object]) -> object:
        """`Tensor.item` that need not wait."""

        @wraps(original)
        def item(tensor: torch.Tensor) -> object:
            later = None
            with self._context.isolated():
                later = self._put_off(tensor, sys._getframe(1))
            return original(tensor) if later is None else later

        return item

    def formatted(self, original: Callable[..., object]) -> object:
        """`Tensor.__format__` of a tensor without dimensions, which formats its number."""

        @wraps(original)
        def __format__(tensor: torch.Tensor, spec: str) -> object:  # noqa: N807
            later = None
            with self._context.isolated():
                if tensor.dim() == 0 and type(tensor) is torch.Tensor:
                    later = self._put_off(tensor, sys._getframe(1))
            return original(tensor, spec) if later is None else format(later, spec)

        return __format__

    def _put_off(self, tensor: torch.Tensor, frame: FrameType) -> Later | None:
        """The number, later; None where it must be read now."""
        site = frame.f_code, frame.f_lasti
        if site not in self._sinks:
            self._sinks[site] = _sinks_at(*site)
        sinks = self._sinks[site]
        seen = frame.f_code.co_name == "<module>" and frame.f_globals["__name__"] != "__main__"
        if not sinks or seen or type(tensor) not in PLAIN:
            return None  # `seen`: other modules see this one's variables
        if not on_device(tensor):
            self._context.inert("numbers are read from the CPU's memory, where nothing waits")
            return None
        main = threading.current_thread() is threading.main_thread()
        if not main or not _readable(tensor) or not all(_ours(name, frame) for name in sinks):
            return None
        self._output.begin()
        self._context.held_in(frame)
        return begun(tensor, self._output)


def _sinks_at(code: CodeType, at: int) -> Sinks | None:
    if not is_users(code):
        return None
    position: Position = list(code.co_positions())[at // 2]
    return printed_only(code).get(position)


def on_device(tensor: torch.Tensor) -> bool:
    """Whether reading a number of this tensor waits for a GPU."""
    return tensor.is_cuda


def _readable(tensor: torch.Tensor) -> bool:
    """Whether it holds one number, which is there once what was queued has run."""
    return (
        tensor.numel() == 1
        and tensor.layout is torch.strided
        and not tensor.dtype.is_complex
        and not torch.compiler.is_compiling()
        and not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
    )


def begun(tensor: torch.Tensor, output: _Output) -> Later:
    """Begin to copy the number to pinned memory, behind what the current stream has queued."""
    host = tensor.detach().to("cpu", non_blocking=True, copy=True)
    copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
    copied.record(torch.cuda.current_stream(tensor.device))

    def find() -> Number:
        copied.synchronize()
        number: Number = host.item()
        return number

    return Later(output, torch.ones((), dtype=tensor.dtype).item(), copied.query, find)


def _ours(name: str, frame: FrameType) -> bool:
    """Whether this name means what it says: the built-in `print`, a logger, a summary writer."""
    first, *rest = name.split(".")
    variables = (frame.f_locals, frame.f_globals, vars(builtins))
    value: object = next((space[first] for space in variables if first in space), None)
    for attribute in rest[:-1]:
        value = vars(value).get(attribute) if hasattr(value, "__dict__") else None
    if not rest:
        return value is builtins.print
    if rest[-1] == "add_scalar":
        return type(value).__module__ == _WRITER and type(value).__name__ == "SummaryWriter"
    if value is logging:
        return True
    return type(value).__dict__.get("handle", logging.Logger.handle) is logging.Logger.handle and (
        isinstance(value, logging.Logger)
    )
