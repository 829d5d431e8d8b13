"""Range-test mode: the learning rate is driven from outside, right before each optimizer step.

After the step the script's own rate is put back, so that its scheduler computes with its own
figures and its log shows them; momentum, which one-cycle schedules turn as well, is held.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from hotlap.core.protocol import RangeTestOptions, decode
from hotlap.seam.losses import Losses
from hotlap.seam.participant import Participant
from hotlap.seam.process import rank_and_world
from hotlap.seam.steps import bare_step_hooks

HELD = ("lr", "momentum", "betas")
Options = list[dict[str, object]]


@contextmanager
def range_test(session: Participant) -> Iterator[None]:
    """Drive one optimizer through the rates in the spec; report each step's loss."""
    losses = Losses()
    drive = Drive(session, losses)
    with (
        losses.recording(lambda: session.wire.send("backward")),
        bare_step_hooks(
            lambda optimizer, *_: drive.before(optimizer),
            lambda optimizer, *_: drive.after(optimizer),
            evaluations=False,  # an optimizer reads its rate once a call
        ),
    ):
        yield


class Drive:
    """Counts the steps of the driven optimizer: the n-th that the script stepped, from 1."""

    def __init__(self, session: Participant, losses: Losses) -> None:
        options = decode(RangeTestOptions, session.spec.options)
        self._session = session
        self._losses = losses
        self._rates = options.rates
        self._wanted = options.optimizer
        self._seen: list[int] = []
        self._target: Optimizer | None = None
        self._latest: float | None = None
        self._step = 0
        self._held: Options = []
        self._shares: list[float] = []
        self._theirs: Options | None = None

    def before(self, optimizer: Optimizer) -> None:
        """An optimizer is about to step: if it is the driven one, set its rate."""
        if id(optimizer) not in self._seen:
            self._meet(optimizer)
        if optimizer is not self._target:
            return
        groups = optimizer.param_groups
        if len(self._held) != len(groups):  # also when the script adds a group on the way
            self._held = _options(groups)
            self._shares = _shares(groups)
        self._theirs = _options(groups)
        rate = self._rates[min(self._step, len(self._rates) - 1)]
        for group, held, share in zip(groups, self._held, self._shares, strict=True):
            _set(group, held | {"lr": rate * share})

    def after(self, optimizer: Optimizer) -> None:
        """An optimizer has stepped, or its scaler has left the step out."""
        if self._losses.step():
            self._latest = self._losses.take()[-1]
        else:  # two optimizers after one backward pass share its loss
            self._losses.take()
        if optimizer is not self._target or self._theirs is None:
            return
        for group, theirs in zip(optimizer.param_groups, self._theirs, strict=True):
            _set(group, theirs)
        self._theirs = None
        self._report()

    def _meet(self, optimizer: Optimizer) -> None:
        if not self._seen:
            self._session.stepped()
        self._seen.append(id(optimizer))
        if _first_rank():
            name = type(optimizer).__name__
            self._session.wire.send("optimizer", count=len(self._seen), name=name)
        if len(self._seen) == self._wanted:
            self._target = optimizer

    def _report(self) -> None:
        """Tell the loss before this step; after the last one wait to be ended."""
        last = self._step == len(self._rates)
        if _first_rank():
            loss = self._latest
            finite = loss is not None and math.isfinite(loss)
            known = loss is not None
            self._session.wire.send(
                "rate", step=self._step, loss=loss if finite else None, known=known
            )
        self._step += 1
        if last:
            self._session.wire.receive()


def _first_rank() -> bool:
    """Whether this process is the one that tells: the others go through the same rates."""
    return rank_and_world()[0] == 0


def _options(groups: list[dict[str, object]]) -> Options:
    return [{name: _value(group[name]) for name in HELD if name in group} for group in groups]


def _value(option: object) -> object:
    return float(option) if isinstance(option, torch.Tensor) else option


def _set(group: dict[str, Any], options: dict[str, object]) -> None:
    for name, value in options.items():
        if isinstance(group[name], torch.Tensor):
            group[name].fill_(value)
        else:
            group[name] = value


def _shares(groups: list[dict[str, Any]]) -> list[float]:
    """Each group's rate as a share of the highest; a warm-up may have begun at 0."""
    rates = [float(group.get("initial_lr", group["lr"])) for group in groups]
    top = max(rates)
    return [rate / top if top > 0 else 1.0 for rate in rates]
