"""The root module's call, without touching its submodules.

The first outermost call of a module makes it a root. A root gets its wrapper in the instance slot
`_compiled_call_impl`, which `Module.__call__` consults, pickling drops and Dynamo knows, so that
submodules run as they always did and `torch.compile` traces nothing of ours. Roots are found by a
patch of `Module.__call__` that takes itself out while a root runs, and altogether once no new root
has come for a few steps; it looks again when an epoch starts. Each time Python forgets what it
knows of all module classes, which takes 0.2 ms and slows their next calls: so later looks end with
a few calls of known roots, and come ever further apart until a new root or a new optimizer does.

Nothing here keeps a root alive, neither the list of roots nor what hangs in a root's slot: a sweep
over a hundred models frees each of them at once, as it does by itself.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import partial, wraps
from time import monotonic
from typing import NamedTuple
from weakref import WeakKeyDictionary, WeakSet, ref

import torch
from torch import is_grad_enabled
from torch.jit import _recursive
from torch.nn import Module
from torch.nn.parameter import is_lazy

from hotlap.seam.patch import Patch, replaced


class Order(IntEnum):
    """The one table of orders. What observes lies outside (0, in `modes`)."""

    GRAD_MODE = 10
    INPUTS = 20
    AUTOCAST = 30
    CHANNELS_LAST = 40
    COMPILE = 50
    BLOCKS = 60
    GRADIENTS = 70


CallModule = Callable[..., object]
"""Called as the module is: with the program's arguments."""
CallRoot = Callable[..., object]
"""Called with the root before the program's arguments, so that it need not hold the root."""
Maker = Callable[[Module, CallRoot], CallRoot | None]
"""Given a root and its call, a call around it; or None. What it returns must not hold the root."""
OnError = Callable[[Exception], None]

SLOT = "_compiled_call_impl"
CALL_CODE = Module._wrapped_call_impl.__code__
"""The function that consults the slot, when nothing is in its place."""
QUIET_STEPS = 3
LOOK_AGAIN = 512
LONG_LOOKS = 4
KNOWN_CALLS = 2
KNOWN_CALLS_AT_FIRST = 64  # of a program that makes no steps
APART, FURTHEST = 0.5, 32.0  # seconds


class _Wrapper(NamedTuple):
    order: int
    maker: Maker
    on_error: OnError | None
    traced: bool
    scripted: bool


class _Thread(threading.local):
    """Whether this thread is inside a wrapped root's call, or below the search for roots."""

    inside = False
    below = False


class Roots:
    """Finds roots and gives each the wrappers that were asked for, outermost first."""

    def __init__(self) -> None:
        self._found: WeakKeyDictionary[Module, None] = WeakKeyDictionary()
        self._unwrapped: WeakSet[Module] = WeakSet()
        self._makers: list[_Wrapper] = []
        self._patch: Patch | None = None
        self.looking = False
        self._steps_left = LOOK_AGAIN
        self._thread = _Thread()
        self._looks = self._known = 0
        self._looked = 0.0
        self._apart = APART
        self._straight = False

    @property
    def found(self) -> list[Module]:
        """The roots that are alive, in the order in which they were first called."""
        return list(self._found)

    def add(
        self,
        order: int,
        maker: Maker,
        on_error: OnError | None = None,
        *,
        traced: bool = False,
        scripted: bool = False,
    ) -> None:
        """Wrap every root with `maker(root, inner)`; a lower order lies further outside.

        With `on_error`, an error of the wrapper's own is handed to it, and the root is called
        without the wrapper; what the root itself raises goes to the program. `traced`: the
        wrapper compiles `inner`, which is handed to it as it is. `scripted`: it only watches, so
        that it may wrap a root that TorchScript has compiled, which no technique changes.
        """
        self._makers.append(_Wrapper(order, maker, on_error, traced, scripted))
        self._makers.sort(key=lambda wrapper: wrapper.order)

    @contextmanager
    def more(self) -> Iterator[None]:
        """Forget on exit what is added inside; `wrap_again` gives it to the known roots."""
        before = list(self._makers)
        try:
            yield
        finally:
            self._makers = before

    def wrap_again(self) -> None:
        """Wrap the known roots by what is asked for now."""
        for root in self.found:
            present = root.__dict__.pop(SLOT, None)
            own = getattr(present, "hotlap_own", present)
            wrapped = self._wrapped(root, own)
            if wrapped is not None:
                root.__dict__[SLOT] = wrapped
                self._unwrapped.discard(root)
            else:
                self._unwrapped.add(root)
                _put(root, own)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look for roots; on exit all wrappers are gone."""
        if not self._makers:
            yield
            return
        with (
            replaced(Module, "__call__", self._discover) as self._patch,
            replaced(Module, "_replicate_for_data_parallel", _without_wrapper),
            replaced(_recursive, "infer_concrete_type_builder", _unwrapped_meanwhile),
            replaced(Module, "train", self._look_at_evaluation),
        ):
            self._patch.take_out()
            self.look()
            try:
                yield
            finally:
                self.looking = False
                for root in self.found:
                    present = root.__dict__.get(SLOT)
                    if isinstance(present, InSlot) and hasattr(present, "hotlap_root"):
                        _put(root, present.hotlap_own)

    def look(self) -> None:
        """Look for new roots until some steps have passed without one."""
        now = monotonic()
        late = self._looks > LONG_LOOKS
        if not self._makers or (late and now - self._looked < self._apart):
            return
        self._begin(now, min(2 * self._apart, FURTHEST) if late else APART)

    def _look_at_evaluation(self, original: Callable[..., Module]) -> object:
        """Look where a model turns to evaluation: a part of it may be called by itself there.

        As where an evaluation calls an encoder without the head that is trained with it.
        """

        @wraps(original)
        def train(module: Module, mode: bool = True) -> Module:
            if not mode and module.training:
                self.look()
            return original(module, mode)

        return train

    def expect(self) -> None:
        """Look at once: with a new optimizer a new model may begin to train."""
        if self._makers:
            self._begin(monotonic(), APART)

    def _begin(self, now: float, apart: float) -> None:
        """Begin a look; `apart` seconds must lie between it and the next."""
        self._looked, self._apart = now, apart
        self._steps_left = QUIET_STEPS
        self._known = 0
        if not self.looking:
            self.looking = True
            self._looks += 1
            self._show()

    @property
    def wanted(self) -> bool:
        """Whether anybody asked for wrappers."""
        return bool(self._makers)

    def straight(self, *, on: bool) -> None:
        """From now on training calls pass by the only wrapper there is, or no longer do."""
        self._straight = on and len(self._makers) == 1

    def step(self, steps: int = 1) -> None:
        """So many optimizer steps are over."""
        self._steps_left -= steps
        if self._steps_left > 0:
            return
        if self.looking:
            self._stop()
        else:
            self.look()
            self._steps_left = 1 if self.looking else LOOK_AGAIN

    def _stop(self) -> None:
        self.looking = False
        self._steps_left = LOOK_AGAIN
        self._hide()

    def _show(self) -> None:
        if self._patch is not None:
            self._patch.put_in()

    def _hide(self) -> None:
        if self._patch is not None:
            self._patch.take_out()

    def _discover(self, original: CallModule) -> CallModule:
        thread = self._thread

        def __call__(module: Module, *args: object, **kwargs: object) -> object:  # noqa: N807
            if torch.compiler.is_compiling():  # a compiled function of the user's calls the model
                return original(module, *args, **kwargs)
            if torch._C._current_graph_task_id() != -1:  # a checkpoint recomputes in backward
                return original(module, *args, **kwargs)
            if torch._C._is_tracing():  # TorchScript would record what looking at it reads
                return original(module, *args, **kwargs)
            if thread.below or thread.inside:
                return original(module, *args, **kwargs)
            thread.below = True
            self._hide()
            try:
                self._attach(module)
                self._look_on()
                return original(module, *args, **kwargs)
            finally:
                thread.below = False
                if self.looking:
                    self._show()

        return __call__

    def _look_on(self) -> None:
        """Only until some calls in a row are those of known roots: a few, after the first looks."""
        late = self._looks > LONG_LOOKS
        if self._known >= (KNOWN_CALLS if late else KNOWN_CALLS_AT_FIRST):
            self._stop()

    def _attach(self, module: Module) -> None:
        present = module.__dict__.get(SLOT)
        ours = getattr(present, "hotlap_root", False) or module in self._unwrapped
        replica = module.__dict__.get("_is_replica", False)  # DataParallel makes them anew
        if ours or replica:
            self._known += 1
            return
        if any(map(is_lazy, module.parameters())):  # nobody can look at those before this call
            self._known = 0
            return
        if has_parameters(module):  # a loss module may be made anew in each step
            self._steps_left = QUIET_STEPS
            self._known = 0
            self._apart = APART
        self._found[module] = None
        wrapped = self._wrapped(module, present)
        if wrapped is None:
            self._unwrapped.add(module)
        else:
            module.__dict__[SLOT] = wrapped

    def _makers_for(self, root: Module) -> list[_Wrapper]:
        scripted = isinstance(root, torch.jit.ScriptModule)
        return [one for one in self._makers if one.scripted or not scripted]

    def _wrapped(self, root: Module, own: CallModule | None) -> CallModule | None:
        """The root's call with every wrapper around it; None where none wants the root.

        `own`: what the program has put in the slot itself.
        """
        inner = outer = _bare(root, own)
        for wrapper in reversed(self._makers_for(root)):
            outer = _isolated(wrapper, root, outer)
        if outer is inner:
            return None
        is_compiling, is_tracing = torch.compiler.is_compiling, torch._C._is_tracing
        thread, alive = self._thread, ref(root)

        def call(*args: object, **kwargs: object) -> object:
            root = alive()
            if is_compiling():  # torch.export too, which would export what is on
                return inner(root, *args, **kwargs)
            if (copy := called_copy(root)) is not None:
                return copy._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]
            assert root is not None  # it is the one that is called
            if thread.inside or is_tracing():
                return inner(root, *args, **kwargs)
            if self._straight and root.training and is_grad_enabled():
                return inner(root, *args, **kwargs)
            thread.inside = True
            try:
                return outer(root, *args, **kwargs)
            finally:
                thread.inside = False

        found = InSlot(call)
        found.hotlap_root, found.hotlap_own = True, own
        return found


def _put(root: Module, own: CallModule | None) -> None:
    """Give the slot back to the program."""
    root.__dict__.pop(SLOT, None)
    if own is not None:
        root.__dict__[SLOT] = own


class InSlot(partial[object]):
    """What hangs in a module's slot. Copied or pickled with the module's `__dict__` it is nothing.

    `Module.__getstate__` leaves the slot out, a class with a `__getstate__` of its own may not.
    """

    hotlap_root: bool
    hotlap_own: CallModule | None

    def __reduce__(self) -> tuple[object, ...]:
        return type(None), ()

    def __deepcopy__(self, memo: dict[int, object]) -> None:
        return None


def _bare(root: Module, own: CallModule | None) -> CallRoot:
    """The root's call without any wrapper of ours."""
    if own is None and "_call_impl" not in vars(root):
        return type(root)._call_impl

    def call(root: Module, *args: object, **kwargs: object) -> object:
        return (own or root._call_impl)(*args, **kwargs)

    return call


def _isolated(wrapper: "_Wrapper", root: Module, inner: CallRoot) -> CallRoot:
    """The root's call with the wrapper around it, without it from where it fails by itself."""
    if wrapper.on_error is None:
        return wrapper.maker(root, inner) or inner
    calls, broken = _Inner(inner), False
    try:
        outer = wrapper.maker(root, inner if wrapper.traced else calls)
    except Exception as error:
        wrapper.on_error(error)
        return inner
    if outer is None:
        return inner
    is_compiling, report = torch.compiler.is_compiling, wrapper.on_error

    def call(*args: object, **kwargs: object) -> object:
        nonlocal broken
        if broken or is_compiling():
            return (inner if broken else outer)(*args, **kwargs)
        try:
            return outer(*args, **kwargs)
        except Exception as error:
            if calls.last.failed:
                raise
            failure = error
        finally:
            result = calls.forget()
        found = result[0] if result else inner(*args, **kwargs)
        broken = True
        report(failure)
        return found

    return call


class _Inner:
    """A wrapper's inner call, which remembers in each thread what came of it."""

    def __init__(self, inner: CallRoot) -> None:
        self._inner = inner
        self.last = _Last()

    def __call__(self, *args: object, **kwargs: object) -> object:
        self.last.failed = True
        result = self._inner(*args, **kwargs)
        self.last.failed, self.last.result = False, (result,)
        return result

    def forget(self) -> tuple[object, ...]:
        """What the call has returned, if it has."""
        result = self.last.result
        self.last.failed, self.last.result = False, ()
        return result


class _Last(threading.local):
    failed = False
    result: tuple[object, ...] = ()


def called_copy(module: Module | None) -> Module | None:
    """Which copy of `module` is being called, asked by what stands in the slot of both.

    The module may be gone (None), and its copy live on.

    Whoever copies a module's `__dict__` (meta-learning libraries clone models so) copies the slot
    with it. The caller's frame names the module that is called; the slot is not handed it.
    """
    frame = sys._getframe(2)
    if frame.f_code is not CALL_CODE:
        return None
    called: Module = frame.f_locals["self"]
    return None if called is module else called


def _without_wrapper(original: Callable[..., object]) -> object:
    """DataParallel's replicas copy a module's `__dict__`: a wrapper in it would call the module."""

    def replicate(module: Module) -> object:
        replica = original(module)
        replica.__dict__.pop(SLOT, None)
        return replica

    return replicate


def _unwrapped_meanwhile(original: Callable[..., object]) -> object:
    """TorchScript reads a module's attributes: the wrapper is out of its sight meanwhile."""

    def infer(module: Module, *args: object, **kwargs: object) -> object:
        wrapper = module.__dict__.pop(SLOT, None)
        if wrapper is None:
            return original(module, *args, **kwargs)
        try:
            return original(module, *args, **kwargs)
        finally:
            module.__dict__[SLOT] = wrapper

    return infer


def has_parameters(module: Module) -> bool:
    """Whether a root is a model rather than a loss function."""
    return next(module.parameters(), None) is not None
