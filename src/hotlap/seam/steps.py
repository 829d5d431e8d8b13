"""What a step is: one cycle of the optimizers.

One optimizer: each of its steps. Several (a GAN, sparse and dense parameters): the shortest period
in which their order repeats. Seen through torch's own global optimizer hooks, so that Lightning,
Accelerate and closures are covered; a step that a GradScaler skipped counts as well. An optimizer
that evaluates its closure several times, as L-BFGS does up to `max_iter` times in one call, makes
as many steps: the whole training may be one call of it.

A program that has made no torch optimizer updates its parameters by hand, or by an optimizer of its
own. There a cycle is one of the calls that compute gradients: a step ends as each returns.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from types import CodeType

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from hotlap.seam.patch import Patch, replaced
from hotlap.seam.where import users_frame

MEMORY = 64
IN_A_ROW = 3
"""Steps of an optimizer that is new, with none of another between, by which a program has left the
loop before: a discriminator's first steps alternate with the generator's."""


class Cycle:
    """Recognises the period in which optimizers take turns."""

    def __init__(self) -> None:
        self.period = 1
        self._ids: dict[int, int] = {}
        self._history: list[int] = []
        self._since = 0

    def turn(self, optimizer: object) -> bool:
        """Note one optimizer step; True when it ends a cycle."""
        if len(self._history) < MEMORY:
            self._remember(self._ids.setdefault(id(optimizer), len(self._ids)))
        self._since += 1
        if self._since < self.period:
            return False
        self._since = 0
        return True

    @property
    def moved_on(self) -> bool:
        """Whether this step shows that another optimizer trains from here on.

        As behind a check that the model can learn one batch; true once for each loop that is left
        within the first `MEMORY` steps.
        """
        before, last = self._history[:-IN_A_ROW], self._history[-IN_A_ROW:]
        new = len(set(last)) == 1 and last[0] not in before
        return bool(before) and new and len(self._history) < MEMORY

    @property
    def every(self) -> bool:
        """Whether it is known by now that each optimizer step is a cycle."""
        return self.period == 1 and len(self._history) >= MEMORY

    def _remember(self, index: int) -> None:
        self._history.append(index)
        found = _period(self._history)
        if found and found != self.period:
            self.period = found
            self._since = found - 1


def _period(history: list[int]) -> int:
    """The shortest period that the whole end of the history repeats at least twice; 0 if none."""
    for period in range(1, len(history) // 2 + 1):
        tail = history[-2 * period :]
        if tail[:period] == tail[period:] and len(set(tail)) == len(set(history)):
            return period
    return 0


class ManualUpdate:
    """Stands for the optimizer where parameters are updated without one: one for each call."""

    param_groups: tuple[dict[str, float], ...] = ()


Arguments = tuple[object, ...]
Keywords = dict[str, object]
Listener = Callable[[Optimizer | ManualUpdate], None]
"""Called with the optimizer, or with the `ManualUpdate` that stands for one."""
Hook = Callable[..., None]
"""Called as torch calls its hooks: with the optimizer, then a tuple and a dict of arguments."""


@contextmanager
def step_hooks(before: Listener | None, after: Listener) -> Iterator[None]:
    """Call `before(optimizer)` and `after(optimizer)` around every optimizer step."""
    begins = None if before is None else lambda optimizer, *_: before(optimizer)
    with bare_step_hooks(begins, lambda optimizer, *_: after(optimizer)), manual_steps(after):
        yield


@contextmanager
def bare_step_hooks(
    before: Hook | None, after: Hook, again: Hook | None = None, *, evaluations: bool = True
) -> Iterator[Callable[[Hook], None]]:
    """The same where a frame more is too many: what else torch passes is to be let by (`*_`).

    Between two evaluations of one closure `after` and `again` are called, by default `before`; not
    without `evaluations`, where a step is a whole call of the optimizer. Yields what puts another
    hook in the place of `after`, from within a hook and from any thread.
    """
    behind = register_optimizer_step_post_hook(after)
    hooks: dict[int, Hook] | None = behind.hooks_dict_ref()
    assert hooks is not None

    def use(hook: Hook) -> None:
        if behind.id in hooks:
            hooks[behind.id] = hook

    def ends(optimizer: Optimizer | ManualUpdate) -> None:
        hooks.get(behind.id, after)(optimizer)

    handles = [behind]
    if before is not None:
        handles.append(register_optimizer_step_pre_hook(before))
    if evaluations:
        handles.append(register_optimizer_step_pre_hook(_evaluations(ends, again or before)))
    try:
        with replaced(torch.amp.GradScaler, "step", partial(_skipped, ends)):
            yield use
    finally:
        for handle in handles:
            handle.remove()


def _skipped(ends: Listener, original: Callable[..., object]) -> object:
    """A GradScaler's step that has `ends` called where it leaves out the optimizer's."""

    def step(self: object, optimizer: Optimizer, *args: object, **kwargs: object) -> object:
        stepped: list[bool] = []
        handle = register_optimizer_step_post_hook(lambda *_: stepped.append(True))
        try:
            result = original(self, optimizer, *args, **kwargs)
        finally:
            handle.remove()
        if not stepped:  # infinities: the scaler left this step out
            ends(optimizer)
        return result

    return step


def _evaluations(
    ends: Listener, begins: Hook | None
) -> Callable[..., tuple[Arguments, Keywords] | None]:
    """A hook before steps that has both called between two evaluations of a step's closure."""

    def before(
        optimizer: Optimizer, args: Arguments, kwargs: Keywords
    ) -> tuple[Arguments, Keywords] | None:
        if len(args) > 1 and callable(closure := args[1]):  # the optimizer itself is the first
            return (args[0], counted(optimizer, closure), *args[2:]), kwargs
        if callable(closure := kwargs.get("closure")):
            return args, kwargs | {"closure": counted(optimizer, closure)}
        return None

    def counted(optimizer: Optimizer, closure: Callable[..., object]) -> Callable[..., object]:
        evaluated: list[bool] = []

        @wraps(closure)
        def evaluate(*args: object, **kwargs: object) -> object:
            if evaluated:
                ends(optimizer)
                if begins is not None:
                    begins(optimizer)
            evaluated.append(True)
            return closure(*args, **kwargs)

        return evaluate

    return before


@contextmanager
def manual_steps(after: Listener) -> Iterator[None]:
    """Call `after(update)` behind each gradient computation of a program without an optimizer.

    The first such computation is let pass, and all are from when an optimizer has been made. One
    `ManualUpdate` stands for each line that computes gradients.
    """
    updates = _ManualUpdates(after)
    with ExitStack() as stack:
        for name in ("backward", "grad"):
            patch = stack.enter_context(replaced(torch.autograd, name, updates.counting))
            updates.patches.append(patch)
        yield


class _ManualUpdates:
    """The lines that compute gradients, until an optimizer is met."""

    def __init__(self, after: Listener) -> None:
        self.patches: list[Patch] = []
        self._after = after
        self._lines: dict[tuple[CodeType, int], ManualUpdate] = {}
        self._calls = 0

    def counting(self, original: Callable[..., object]) -> object:
        """`torch.autograd.backward` or `grad`, with its calls counted."""

        def compute(*args: object, **kwargs: object) -> object:
            result = original(*args, **kwargs)
            self._computed()
            return result

        return compute

    def _computed(self) -> None:
        if not self.patches or within_gradients():
            return
        if optimizer_exists():
            for patch in self.patches:
                patch.take_out()
            self.patches.clear()
            return
        self._calls += 1
        frame = users_frame(sys._getframe(2)) or sys._getframe(2)
        update = self._lines.setdefault((frame.f_code, frame.f_lasti), ManualUpdate())
        if self._calls > 1:
            self._after(update)


def within_gradients() -> bool:
    """Whether a computation of gradients that begins now is a part of another, or is none.

    A checkpoint computes gradients within a backward pass. Where torch.compile traces one, it
    computes nothing.
    """
    within = torch._C._current_graph_task_id() != -1
    return within or torch._guards.TracingContext.try_get() is not None


def optimizer_exists() -> bool:
    """Whether the process has made a torch optimizer: its class then has torch's hooks."""
    classes = [Optimizer]
    for cls in classes:
        if getattr(cls.step, "hooked", False):
            return True
        classes.extend(cls.__subclasses__())
    return False
