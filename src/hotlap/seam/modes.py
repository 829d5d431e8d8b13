"""What a process does in each mode of a trial, besides the techniques."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial, wraps

import torch
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader

import hotlap
from hotlap.core.protocol import RaceOptions, decode
from hotlap.core.spec import Mode
from hotlap.seam.data_audit import DataAudit
from hotlap.seam.gate import Gate, time_limits_while_running
from hotlap.seam.inference import InferenceSteps
from hotlap.seam.losses import Losses
from hotlap.seam.outputs import Outputs
from hotlap.seam.participant import Participant
from hotlap.seam.patch import replaced
from hotlap.seam.perturb import perturbing
from hotlap.seam.process import note_training
from hotlap.seam.roots import CallRoot, Maker, has_parameters
from hotlap.seam.steps import (
    Arguments,
    Cycle,
    Keywords,
    ManualUpdate,
    bare_step_hooks,
    manual_steps,
    step_hooks,
)
from hotlap.seam.wire import Wire

OUTERMOST = 0
Told = Callable[[], object]
Loader = DataLoader[object]


def part(session: Participant) -> AbstractContextManager[None]:
    """The mode's part for this process."""
    if session.spec.mode is Mode.BATCH:
        from hotlap.seam.batch_meter import driving

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
def _run(session: Participant) -> Iterator[None]:
    """Only the techniques; the first step is reported, because it shows what took hold."""
    roots = session.roots

    def first(*_: object) -> None:
        use((lambda *_: roots.step()) if roots.wanted else _nothing)
        session.stepped()

    def by_hand(_: object) -> None:
        if not stepped:
            stepped.append(True)
            session.stepped()
        roots.step()

    stepped: list[bool] = []
    with ExitStack() as stack:
        evaluations = bool(session.spec.techniques)
        use = stack.enter_context(bare_step_hooks(None, first, evaluations=evaluations))
        if session.spec.techniques:
            stack.enter_context(manual_steps(by_hand))
        if roots.wanted:
            stack.enter_context(_telling(DataLoader, "__iter__", before=roots.look))
            stack.enter_context(_telling(Optimizer, "__init__", after=roots.expect))
        yield


@contextmanager
def _race(session: Participant) -> Iterator[None]:
    """Blocks, losses, and the marks of special steps."""
    cycle, losses, audit = Cycle(), Losses(), DataAudit(session.wire)
    outputs, inference = Outputs(), InferenceSteps(session)
    options = decode(RaceOptions, session.spec.options)
    perturb = perturbing(session.wire) if options.perturb else _nothing
    gate = Gate(
        session.wire,
        options.first,
        lambda: {"losses": losses.take(), "outputs": outputs.take(), **session.standing()},
        session.switch.to,
    )

    def after(optimizer: Optimizer | ManualUpdate) -> None:
        inference.trains()
        if cycle.turn(optimizer):
            losses.step()
            perturb(optimizer)
            session.roots.step()
            audit.flush()
            gate.step()

    def answered(root: torch.nn.Module, args: Arguments, kwargs: Keywords, result: object) -> None:
        if cycle.turn(root):
            outputs.record(args, kwargs, result)
            session.roots.step()
            audit.flush()
            gate.step()

    def backward() -> None:
        note_training(session.wire.address)
        session.wire.send("backward")

    def epoch(loader: Loader) -> None:
        session.roots.look()
        gate.epoch(_batches(loader))

    root_call = _root_calls(inference, answered, lambda: gate.mark("eval"))
    session.roots.add(OUTERMOST, root_call)
    session.at_exit += [inference.ends, gate.ends]
    with (
        hotlap.listening(partial(_send_metric, session.wire, gate)),
        losses.recording(backward),
        time_limits_while_running(),
        audit.watching(),
        step_hooks(None, after),
        replaced(DataLoader, "__iter__", lambda original: _epochs(original, epoch)),
        _telling(Optimizer, "__init__", after=session.roots.expect),
        _telling(torch, "save", before=lambda: gate.mark("save")),
        inference.watching(),  # last: it takes itself out of the way first
    ):
        yield


def _send_metric(wire: Wire, gate: Gate, name: str, value: float) -> None:
    wire.send("metric", name=name, value=value, seconds=gate.elapsed())


Answered = Callable[[torch.nn.Module, Arguments, Keywords, object], None]


def _root_calls(inference: InferenceSteps, answered: Answered, evaluates: Told) -> Maker:
    """A root's calls: steps where the program does not train, or else evaluations, or neither."""

    def maker(root: torch.nn.Module, inner: CallRoot) -> CallRoot:
        model = has_parameters(root)

        def call(root: torch.nn.Module, *args: object, **kwargs: object) -> object:
            if model and inference.counts(root):
                result = inner(root, *args, **kwargs)
                answered(root, args, kwargs, result)
                return result
            if not root.training or not torch.is_grad_enabled():
                evaluates()
            return inner(root, *args, **kwargs)

        return call

    return maker


def _epochs(original: Callable[..., object], begins: Callable[[Loader], None]) -> object:
    @wraps(original)
    def begin(loader: Loader) -> object:
        begins(loader)
        return original(loader)

    return begin


def _batches(loader: Loader) -> int:
    """The batches of an epoch; 0 where the loader does not know."""
    try:
        return len(loader)
    except (TypeError, NotImplementedError, AttributeError):
        return 0


def _nothing(*_: object) -> None:
    """Do nothing."""


def _telling(
    owner: object, name: str, *, before: Told = _nothing, after: Told = _nothing
) -> AbstractContextManager[object]:
    """Call `before()` and `after()` around each call of `owner.name`."""

    def make(original: Callable[..., object]) -> object:
        @wraps(original)
        def call(*args: object, **kwargs: object) -> object:
            before()
            result = original(*args, **kwargs)
            after()
            return result

        return call

    return replaced(owner, name, make)
