"""The boundaries of a training loop: each patch marks where a phase begins and ends.

A boundary that lies inside another (a copy in the data set, a forward in a transform) belongs to
the outer one. In other threads than the training's everything passes straight through.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial, wraps
from threading import get_ident
from time import perf_counter_ns

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from hotlap.seam.patch import replaced
from hotlap.seam.probe.compiling import untraced
from hotlap.seam.probe.facts import doubled
from hotlap.seam.probe.forwards import forwards
from hotlap.seam.probe.loader_boundary import feeding
from hotlap.seam.probe.phases import (
    BACKWARD,
    CLOSURE,
    COPY,
    OPEN,
    OPTIMIZER,
    OTHER,
    RESTING,
    SAVING,
    STEPPING,
)
from hotlap.seam.probe.recorder import Recorder
from hotlap.seam.steps import Hook, ManualUpdate, bare_step_hooks, manual_steps
from hotlap.seam.unused_gradients import gradient_reader, noting_unused

Make = Callable[[Callable[..., object]], object]
STORAGES = "torch.storage"
COPIES = ("to", "cuda", "cpu", "double", "float", "half", "bfloat16")


@contextmanager
def boundaries(rec: Recorder) -> Iterator[None]:
    """Mark every boundary on the recorder's timeline."""
    rec.session.roots.add(0, forwards(rec), scripted=True)
    rec.while_awake.append(lambda awake: rec.session.roots.straight(on=not awake))
    with ExitStack() as stack:
        stack.enter_context(feeding(rec))
        for name in COPIES:
            stack.enter_context(_copies(rec, name))
        stack.enter_context(_backward(rec))
        stack.enter_context(_gradients(rec))
        stack.enter_context(_while_awake(rec, Optimizer, "zero_grad", _zeroing(rec)))
        stack.enter_context(replaced(torch.nn.Module, "zero_grad", _zeroing(rec)))
        stack.enter_context(_unused_gradients(rec))
        stack.enter_context(_optimizers(rec))
        stack.enter_context(_saving(rec))
        stack.enter_context(_scaling(rec))
        stack.enter_context(_pointing(rec, torch, "set_anomaly_enabled", "anomaly"))
        rec.session.at_exit.append(rec.inference.ends)
        yield


@contextmanager
def _unused_gradients(rec: Recorder) -> Iterator[None]:
    """Watch for gradients that nobody uses until the probe first rests: they show in few steps."""
    with noting_unused(partial(_note_unused, rec)) as stop:
        # It lies on top of those that rest, and so has to go before them; below what watches for
        # steps by hand, which goes when the first optimizer is met.
        rec.while_awake.insert(0, lambda awake: None if awake else stop())
        yield


def _note_unused(rec: Recorder) -> None:
    if gradient_reader():  # parameters updated by hand: an optimizer is not all that uses them
        return
    rec.facts.note("unused_gradients")
    rec.facts.point("unused_gradients")


def _copies(rec: Recorder, name: str) -> AbstractContextManager[object]:
    line, facts = rec.timeline, rec.facts
    codes, mark = line.codes, line.mark

    def make(original: Callable[..., torch.Tensor]) -> object:
        def copy(tensor: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
            back = codes[-1]
            mine = OPEN[back] and get_ident() == rec.thread
            if mine:
                mark(COPY)
            after = tensor
            try:
                after = original(tensor, *args, **kwargs)
            finally:
                if mine and after is tensor:
                    line.unmark()
                elif mine:
                    mark(back)
            if after is not tensor and "copies" not in facts.settled:
                _note_copy(rec, tensor, after, args, kwargs)
            return after

        return copy

    return untraced(torch.Tensor, name, make)


def _note_copy(
    rec: Recorder,
    before: torch.Tensor,
    after: torch.Tensor,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> None:
    waits = not kwargs.get("non_blocking") and not any(a is True for a in args)
    with suppress(Exception):  # odd tensors (fake, nested, batched): the program goes on
        if rec.begun:
            rec.facts.copied(before, after, waits=waits)
        elif doubled(before, after):
            rec.facts.made_double("float64_made")


def _backward(rec: Recorder) -> AbstractContextManager[object]:
    """`Tensor.backward` ends in `torch.autograd.backward`: one patch sees both."""
    line, facts = rec.timeline, rec.facts
    codes, times, clock = line.codes, line.times, perf_counter_ns
    ends_evaluation = line.evaluations.backward

    def make(original: Callable[..., object]) -> object:
        def backward(*args: object, **kwargs: object) -> object:
            if not CLOSURE[codes[-1]] or get_ident() != rec.thread:
                return original(*args, **kwargs)
            if "backward" not in facts.settled:
                facts.point("backward")
                rec.inference.trains()
                rec.session.wire.send("backward")
            line.backwards += 1
            if ends_evaluation():
                facts.note("eval_trained")
            codes.append(BACKWARD)
            times.append(clock())
            try:
                return original(*args, **kwargs)
            finally:
                codes.append(line.base)
                times.append(clock())

        return backward

    return _while_awake(rec, torch.autograd, "backward", make)


def _gradients(rec: Recorder) -> AbstractContextManager[object]:
    """`torch.autograd.grad`, which `torch.func.grad` ends in: a backward pass as well."""
    line = rec.timeline
    codes, mark = line.codes, line.mark

    def make(original: Callable[..., object]) -> object:
        @wraps(original)
        def grad(*args: object, **kwargs: object) -> object:
            if not CLOSURE[codes[-1]] or get_ident() != rec.thread:
                return original(*args, **kwargs)
            if line.evaluations.backward():
                rec.facts.note("eval_trained")
            rec.inference.trains()
            mark(BACKWARD)
            try:
                return original(*args, **kwargs)
            finally:
                mark(line.base)

        return grad

    return untraced(torch.autograd, "grad", make, comes_back=False)


@contextmanager
def _optimizers(rec: Recorder) -> Iterator[None]:
    line, facts = rec.timeline, rec.facts
    codes, times, mark, clock = line.codes, line.times, line.mark, perf_counter_ns
    rest = rec.rest

    def before(*_: object) -> None:
        if not rec.begun:
            rec.begin()
            facts.point("step")
        rec.inference.trains()
        if STEPPING[codes[-1]] and get_ident() == rec.thread:
            line.base = OPTIMIZER
            codes.append(OPTIMIZER)
            times.append(clock())

    def after(optimizer: Optimizer | ManualUpdate, *_: object) -> None:
        if get_ident() != rec.thread:
            rec.elsewhere(optimizer)
        elif not rec.turned(optimizer):
            line.base = OTHER
            mark(OTHER)

    def switch(awake: bool) -> None:
        use(after if awake else rest.clocking(rec.latest, rec.optimizers, after))

    with (
        bare_step_hooks(None, after, before) as use,
        _before_steps(rec, before),
        manual_steps(lambda update: _by_hand(rec, lambda: after(update))),
        _pointing(rec, Optimizer, "__init__", "optimizer"),
    ):
        rest.ask = lambda: use(after)
        rec.while_awake.append(switch)
        yield


def _by_hand(rec: Recorder, after: Callable[[], None]) -> None:
    """Gradients were computed where no optimizer will step: a step ends here."""
    rec.inference.trains()
    if not rec.begun:
        rec.begin()
        rec.facts.point("step")
    after()


@contextmanager
def _before_steps(rec: Recorder, before: Hook) -> Iterator[None]:
    """Call `before` ahead of each optimizer step, but not while the probe rests."""
    handle = register_optimizer_step_pre_hook(before)

    def switch(awake: bool) -> None:
        nonlocal handle
        handle.remove()
        if awake:
            handle = register_optimizer_step_pre_hook(before)

    rec.while_awake.append(switch)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _while_awake(rec: Recorder, owner: object, name: str, make: Make) -> Iterator[None]:
    """As `replaced`, but while the probe rests torch's own is in its place.

    If the program put something of its own over ours, both stay.
    """
    with replaced(owner, name, make) as patch:
        rec.while_awake.append(lambda awake: patch.put_in() if awake else patch.take_out())
        yield


def _zeroing(rec: Recorder) -> Make:
    facts = rec.facts
    codes, times, clock = rec.timeline.codes, rec.timeline.times, perf_counter_ns

    def make(original: Callable[..., object]) -> object:
        def zero_grad(owner: object, *args: object, **kwargs: object) -> object:
            back = codes[-1]
            if not OPEN[back] or get_ident() != rec.thread:
                return original(owner, *args, **kwargs)
            if "zero_grad" not in facts.settled:
                facts.point("zero_grad")
            if (args or kwargs) and not all((*args, *kwargs.values())):  # set_to_none
                facts.note("zero_grad_false")
            codes.append(OPTIMIZER)
            times.append(clock())
            try:
                return original(owner, *args, **kwargs)
            finally:
                codes.append(back)
                times.append(clock())

        return zero_grad

    return make


def _saving(rec: Recorder) -> AbstractContextManager[object]:
    line, facts = rec.timeline, rec.facts
    codes, mark = line.codes, line.mark

    def make(original: Callable[..., object]) -> object:
        def save(*args: object, **kwargs: object) -> object:
            if sys._getframe(1).f_globals.get("__name__") == STORAGES:  # pickles a tensor
                return original(*args, **kwargs)
            if codes[-1] == RESTING:
                rec.wake()
            back = codes[-1]
            if not OPEN[back] or get_ident() != rec.thread:
                return original(*args, **kwargs)
            facts.point("save")
            line.evaluations.special = True
            mark(SAVING)
            try:
                return original(*args, **kwargs)
            finally:
                mark(back)

        return save

    return replaced(torch, "save", make)


def _scaling(rec: Recorder) -> AbstractContextManager[object]:
    def make(original: Callable[..., object]) -> object:
        def scale(scaler: torch.amp.GradScaler, outputs: object) -> object:
            if "scaler" not in rec.facts.settled:
                rec.facts.settled.add("scaler")
                rec.facts.note("scaler_on", bool(scaler.is_enabled()))
            return original(scaler, outputs)

        return scale

    return replaced(torch.amp.GradScaler, "scale", make)


def _pointing(rec: Recorder, owner: object, name: str, kind: str) -> AbstractContextManager[object]:
    """Remember where something is first called with a true first argument."""

    def make(original: Callable[..., object]) -> object:
        @wraps(original)
        def call(*args: object, **kwargs: object) -> object:
            if args and args[0] is not False:
                rec.facts.point(kind)
            return original(*args, **kwargs)

        return call

    return replaced(owner, name, make)
