"""Applies moves inside the user's process. Each is a context manager: its undo stands beside it."""

import importlib.util
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from types import FrameType
from typing import Any

from hotlap.core.move import Call, Choice, Env, Flag, Keyword, Move, Swap, Wrap
from hotlap.seam.patch import assigned, load, replaced, resolve
from hotlap.seam.where import place, users_frame

Held = Callable[[str], None]
Args = tuple[object, ...]
Kwargs = dict[str, object]
Function = Callable[..., object]


class _Isolated:
    """Passes an error on to a function instead of to the program; it may be entered again."""

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._failed(error)
        return True


class Context:
    """What a move may use: the values chosen, the process's seams, and the word that it held.

    `live`: it is switched on in a program that has made its models and optimizers already.
    """

    def __init__(
        self, name: str, values: dict[str, Any], seams: Any, *, live: bool = False
    ) -> None:
        self.name = name
        self.values = values
        self.seams = seams
        self.live = live
        self._told: set[object] = set()
        self._isolated = _Isolated(self.failed)

    def value(self, raw: object) -> object:
        """The value of a move: as declared, or as chosen by the race."""
        return self.values[raw.name] if isinstance(raw, Choice) else raw

    def held(self, note: str = "") -> None:
        """The technique took hold here. Said at every call, it is sent once."""
        if note not in self._told:
            self._told.add(note)
            self.seams.held(self.name, note)

    def held_in(self, frame: FrameType) -> None:
        """It took hold of a call from this frame: noted with the user's line, once a call."""
        users = users_frame(frame) or frame
        call = (users.f_code, users.f_lasti)
        if call not in self._told:
            self._told.add(call)
            self.seams.held(self.name, place(users))

    def inert(self, reason: str) -> None:
        """The technique cannot work here, and why."""
        self.seams.inert(self.name, reason)

    def waits(self, reason: str) -> None:
        """Why it will not have held if the run ends now: what it acts on has yet to come.

        Empty: that has come.
        """
        self.seams.waits(self.name, reason)

    def failed(self, error: Exception) -> None:
        """The technique's own code has raised an error: the program goes on without it."""
        self.inert(f"it failed: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")

    def isolated(self) -> "_Isolated":
        """A context whose errors are the technique's own: they end there, and are reported."""
        return self._isolated


def applied(move: Move, context: Context) -> AbstractContextManager[None]:
    """Apply one move for as long as the returned context is open."""
    return _APPLY[type(move)](move, context)


@contextmanager
def _keyword(move: Keyword, context: Context) -> Iterator[None]:
    from contextlib import ExitStack

    with ExitStack() as stack:
        for target in move.targets:
            owner, name = resolve(target)
            if isinstance(getattr(owner, name), type):
                if context.live:  # what is built once outlives the switch
                    continue
                owner, name = getattr(owner, name), "__init__"
            if move.name not in inspect.signature(getattr(owner, name)).parameters:
                continue  # this version of the library has no such argument
            stack.enter_context(replaced(owner, name, lambda f: _with_keyword(f, move, context)))
        yield


def _with_keyword(function: Callable[..., object], move: Keyword, context: Context) -> object:
    signature = inspect.signature(function)
    position = list(signature.parameters).index(move.name)
    value = context.value(move.value)

    def current(args: Args, kwargs: Kwargs, name: str, at: int) -> object:
        if name in kwargs:
            return kwargs[name]
        return args[at] if len(args) > at else _ABSENT

    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        free = False
        with context.isolated():
            now = current(args, kwargs, move.name, position)
            wanted = move.absent if now is _ABSENT else any(now is v or now == v for v in move.over)
            free = wanted and _free(signature, move, args, kwargs)
        return changed(args, kwargs) if free else function(*args, **kwargs)

    def changed(args: Args, kwargs: Kwargs) -> object:
        """Call it with the keyword; where that fails and the plain call does not, leave it out."""
        more_args, more_kwargs = _put(args, kwargs, move.name, position, value)
        try:
            result = function(*more_args, **more_kwargs)
        except Exception as error:
            failure = error
        else:
            context.held()
            return result
        result = function(*args, **kwargs)
        context.failed(failure)
        return result

    return call


_ABSENT = object()


def _free(signature: inspect.Signature, move: Keyword, args: Args, kwargs: Kwargs) -> bool:
    """Whether nothing in this call forbids the keyword."""
    if not move.unless and not move.when:
        return True
    try:
        bound = signature.bind_partial(*args, **kwargs)
    except TypeError:
        return False
    bound.apply_defaults()
    return permits(move, bound.arguments)


def permits(move: Keyword, arguments: Mapping[str, object]) -> bool:
    """Whether a call with these arguments may be given the keyword: `unless` and `when`."""
    if any(arguments.get(name) == value for name, value in move.unless):
        return False
    return not move.when or bool(load(move.when)(arguments))


def _put(
    args: Args, kwargs: Kwargs, name: str, position: int, value: object
) -> tuple[Args, Kwargs]:
    if len(args) > position:
        return (*args[:position], value, *args[position + 1 :]), kwargs
    return args, {**kwargs, name: value}


@contextmanager
def _flag(move: Flag, context: Context) -> Iterator[None]:
    owner, name = resolve(move.target)
    with assigned(owner, name, context.value(move.value)):
        context.held()
        yield


@contextmanager
def _env(move: Env, context: Context) -> Iterator[None]:
    """The launcher set it before the process began; nothing to do here."""
    if os.environ.get(move.name) == str(context.value(move.value)):
        context.held()
    else:
        context.inert(f"{move.name} was set to something else on the way")
    yield


@contextmanager
def _call(move: Call, context: Context) -> Iterator[None]:
    owner, name = resolve(move.target)
    get_owner, get_name = resolve(move.getter)
    before = getattr(get_owner, get_name)()
    took = getattr(owner, name)(context.value(move.value)) is not False
    ours = getattr(get_owner, get_name)()
    if not took:
        context.inert(f"{name} has nothing to set here")
    else:
        context.held()
    try:
        yield
    finally:
        if getattr(get_owner, get_name)() == ours:  # what the program has chosen since stays
            getattr(owner, name)(before)


@contextmanager
def _swap(move: Swap, context: Context) -> Iterator[None]:
    from contextlib import ExitStack

    if why := lacking(move):
        context.inert(why)
        yield
        return
    make = load(move.replacement)
    serves = load(move.serves) if move.serves else _any_call
    with ExitStack() as stack:
        for target in move.targets:
            owner, name = resolve(target)
            stack.enter_context(
                replaced(owner, name, lambda f: _handing_on(f, make(f), serves, context))
            )
        yield


def lacking(move: Swap) -> str:
    """What must be installed for a swap; empty where nothing is missing."""
    if not move.requires or importlib.util.find_spec(move.requires) is not None:
        return ""
    return f"{move.requires} is not installed: pip install {move.extra}"


def _any_call(*_: object, **__: object) -> bool:
    return True


def _handing_on(
    original: Function, substitute: Function, serves: Function, context: Context
) -> object:
    """Call the substitute, and the original where the substitute does not serve the arguments."""
    import torch

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # Dynamo runs it once while it traces
    def applied_here() -> bool:
        context.held()
        return True

    @wraps(original)
    def call(*args: object, **kwargs: object) -> object:
        result = substitute(*args, **kwargs) if serves(*args, **kwargs) else NotImplemented
        if result is NotImplemented:
            return original(*args, **kwargs)
        applied_here()
        return result

    return call


def _wrap(move: Wrap, context: Context) -> AbstractContextManager[None]:
    return load(move.function)(context)  # type: ignore[no-any-return]


_APPLY: dict[type, Callable[[Any, Context], AbstractContextManager[None]]] = {
    Keyword: _keyword,
    Flag: _flag,
    Env: _env,
    Call: _call,
    Swap: _swap,
    Wrap: _wrap,
}


def environment(moves: tuple[Move, ...], values: Mapping[str, object]) -> dict[str, str]:
    """The variables that the launcher must set before the process begins."""
    found = {}
    for move in moves:
        if isinstance(move, Env):
            raw = move.value
            found[move.name] = str(values[raw.name] if isinstance(raw, Choice) else raw)
    return found
