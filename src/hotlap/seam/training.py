"""Moves that change the training itself: schedule, batch size, clipped gradients.

A learning rate is changed for the optimizer's step alone and put back behind it, so that what the
program sets, schedules and logs stays its own.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data import DataLoader

from hotlap.seam.moves import Context
from hotlap.seam.patch import replaced

PEAK = 3.0
"""The peak of the one cycle over the script's own rate."""
START, RISE = 1.0 / 25.0, 0.3
"""First rate over the peak, and the part of the steps in which it rises (Smith 2018; fast.ai)."""
LAST = 1e-4
LARGEST_NORM = 1.0
"""Of all gradients together; what most published recipes of transformers clip to."""


@contextmanager
def one_cycle(context: Context) -> Iterator[None]:
    """Let the rate of each optimizer rise and fall once over so many of its steps."""
    total = context.values["steps"]
    taken: dict[int, int] = {}

    def factor(optimizer: Optimizer) -> float:
        taken[id(optimizer)] = step = taken.get(id(optimizer), -1) + 1
        return PEAK * cycle(step / total)

    with _scaled_rates(context, factor):
        yield


def cycle(x: float) -> float:
    """The rate over its peak where a share `x` of the steps is done: two half waves of a cosine."""
    if x < RISE:
        return _between(START, 1.0, x / RISE)
    return _between(1.0, LAST, min(1.0, (x - RISE) / (1.0 - RISE)))


def _between(begin: float, end: float, x: float) -> float:
    return end + (begin - end) * 0.5 * (1.0 + math.cos(math.pi * x))


@contextmanager
def larger_batch(context: Context) -> Iterator[None]:
    """Let loaders that shuffle give larger batches, with the rate scaled for them.

    Linearly for SGD (Goyal et al. 2017), by the square root for optimizers that divide by the
    gradient's size (Krizhevsky 2014; Malladi et al. 2022).
    """
    times = context.values["times"]
    grown: list[bool] = []

    def make(original: Callable[..., object]) -> object:
        def __init__(  # noqa: N807
            self: object, dataset: object, batch_size: object = 1, *args: object, **kwargs: object
        ) -> None:
            shuffles = args[0] if args else kwargs.get("shuffle")
            if shuffles and isinstance(batch_size, int):
                batch_size *= times
                grown.append(True)
                context.held()
            original(self, dataset, batch_size, *args, **kwargs)

        return __init__

    def factor(optimizer: Optimizer) -> float:
        if not grown:
            return 1.0
        return float(times if isinstance(optimizer, torch.optim.SGD) else times**0.5)

    with replaced(DataLoader, "__init__", make), _scaled_rates(context, factor, holds=False):
        yield


@contextmanager
def gradient_clipping(context: Context) -> Iterator[None]:
    """Clip each optimizer's gradients to a norm of 1 before its step."""

    def before(optimizer: Optimizer, *_: object) -> None:
        with context.isolated():
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, LARGEST_NORM)
            context.held()

    handle = register_optimizer_step_pre_hook(before)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _scaled_rates(
    context: Context, factor: Callable[[Optimizer], float], *, holds: bool = True
) -> Iterator[None]:
    """Multiply the rates by `factor(optimizer)` for each step."""
    own: dict[int, list[object]] = {}

    def before(optimizer: Optimizer, *_: object) -> None:
        with context.isolated():
            scale = factor(optimizer)
            own[id(optimizer)] = [group["lr"] for group in optimizer.param_groups]
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * scale
            if holds:
                context.held()

    def after(optimizer: Optimizer, *_: object) -> None:
        rates = own.pop(id(optimizer), [])
        for group, rate in zip(optimizer.param_groups, rates, strict=False):
            group["lr"] = rate

    handles = register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
