"""What a process does in each mode of a trial, besides the techniques."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader

from hotlap.core.spec import Mode
from hotlap.seam.gate import Gate
from hotlap.seam.losses import Losses
from hotlap.seam.patch import replaced
from hotlap.seam.steps import Cycle, bare_step_hooks, step_hooks

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from hotlap.seam.session import Session

OUTERMOST = 0


def part(session: "Session") -> "AbstractContextManager[None]":
    """The mode's part for this process."""
    if session.spec.mode is Mode.RACE and "batch" in session.spec.options:
        from hotlap.seam.batch_size import driving

        return driving(session)
    if session.spec.mode is Mode.RACE:
        return _race(session)
    if session.spec.mode is Mode.PROFILE:
        from hotlap.seam.probe import probing

        return probing(session)
    if session.spec.mode is Mode.LR:
        from hotlap.seam.range_test import range_test

        return range_test(session)
    return _run(session)


@contextmanager
def _run(session: "Session") -> Iterator[None]:
    """Only the techniques; the first step is told of, because it shows what took hold."""
    told: list[bool] = []

    def first(*_: Any) -> None:
        if not told:
            told.append(True)
            session.stepped()

    with ExitStack() as stack:
        stack.enter_context(bare_step_hooks(None, first))
        if session.roots.wanted:
            stack.enter_context(bare_step_hooks(None, lambda *_: session.roots.step()))
            stack.enter_context(_epochs(session.roots.look))
            stack.enter_context(_optimizers(session.roots.expect))
        yield


@contextmanager
def _race(session: "Session") -> Iterator[None]:
    """Blocks, losses, and the marks of special steps."""
    cycle, losses = Cycle(), Losses()
    gate = Gate(
        session.wire,
        session.spec.options.get("first", 1),
        lambda: {"losses": losses.take(), **session.standing()},
    )

    def after(optimizer: Optimizer) -> None:
        if cycle.turn(optimizer):
            losses.step()
            session.roots.step()
            gate.step()

    def epoch() -> None:
        session.roots.look()
        gate.mark("epoch")

    def evaluation(root: torch.nn.Module, inner: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not root.training or not torch.is_grad_enabled():
                gate.mark("eval")
            return inner(*args, **kwargs)

        return call

    session.roots.add(OUTERMOST, evaluation)
    with (
        losses.recording(lambda: session.wire.send("backward")),
        step_hooks(None, after),
        _epochs(epoch),
        _optimizers(session.roots.expect),
        _saves(lambda: gate.mark("save")),
    ):
        yield


@contextmanager
def _epochs(begin: Any) -> Iterator[None]:
    def make(original: Any) -> Any:
        def __iter__(loader: Any) -> Any:  # noqa: N807
            begin()
            return original(loader)

        return __iter__

    with replaced(DataLoader, "__iter__", make):
        yield


@contextmanager
def _optimizers(made: Any) -> Iterator[None]:
    def make(original: Any) -> Any:
        def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(optimizer, *args, **kwargs)
            made()

        return __init__

    with replaced(Optimizer, "__init__", make):
        yield


@contextmanager
def _saves(saved: Any) -> Iterator[None]:
    def make(original: Any) -> Any:
        def save(*args: Any, **kwargs: Any) -> Any:
            saved()
            return original(*args, **kwargs)

        return save

    with replaced(torch, "save", make):
        yield
