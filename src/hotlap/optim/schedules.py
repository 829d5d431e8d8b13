"""Schedules: warm-up, then constant, linear, polynomial or cosine decay, a step at a time.

Each returns torch's own `LambdaLR`, to be stepped after every optimizer step. For one-cycle and
cyclic schedules take torch's `OneCycleLR` and `CyclicLR`.
"""

import math
from collections.abc import Callable
from functools import partial

from torch.optim.lr_scheduler import LambdaLR
from torch.optim.optimizer import Optimizer

Shape = Callable[[float], float]


def constant(optimizer: Optimizer, *, steps: int | None = None, warmup: int = 0) -> LambdaLR:
    """Warm up over `warmup` steps, then stay.

    `steps` changes nothing: it is there so that the schedules can be exchanged for one another.
    """
    return _schedule(optimizer, warmup, math.inf if steps is None else steps, 1.0, _level)


def linear(optimizer: Optimizer, *, steps: int, warmup: int = 0, end: float = 0.0) -> LambdaLR:
    """Warm up over `warmup` steps, then fall in a line to `end` times the rate at step `steps`."""
    return _schedule(optimizer, warmup, steps, end, _line)


def polynomial(
    optimizer: Optimizer, *, steps: int, warmup: int = 0, end: float = 0.0, power: float = 2.0
) -> LambdaLR:
    """Warm up over `warmup` steps, then fall as (1 - x)^power to `end` times the rate.

    LARS was published with power 2, BERT and LAMB with power 1.

    Raises:
        ValueError: `power` is not above 0; besides what the others raise.
    """
    if not power > 0:
        raise ValueError(f"power is {power}; it must be above 0")
    return _schedule(optimizer, warmup, steps, end, partial(_power, power))


def cosine(optimizer: Optimizer, *, steps: int, warmup: int = 0, end: float = 0.0) -> LambdaLR:
    """Warm up over `warmup` steps, then fall along half a cosine to `end` times the rate.

    Loshchilov and Hutter 2017, "SGDR", without restarts.
    """
    return _schedule(optimizer, warmup, steps, end, _cosine)


def factor(step: int, *, warmup: int, steps: float, end: float, shape: Shape) -> float:
    """What the rate is multiplied by in step `step` (from 0).

    The warm-up rises in a line and is full in step `warmup`: its first step already moves, at
    1 / (warmup + 1). From step `steps` on it is `end`.
    """
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if step >= steps:
        return end
    return end + (1 - end) * shape((step - warmup) / (steps - warmup))


def _schedule(
    optimizer: Optimizer, warmup: int, steps: float, end: float, shape: Shape
) -> LambdaLR:
    if not 0 <= warmup < steps:
        raise ValueError(f"warmup is {warmup} and steps {steps}; it takes 0 <= warmup < steps")
    if not 0 <= end <= 1:
        raise ValueError(f"end is {end}; it is a share of the rate, from 0 to 1")
    # partial, not a closure: it can be pickled with the scheduler
    how = partial(factor, warmup=warmup, steps=steps, end=end, shape=shape)
    return LambdaLR(optimizer, how)


def _level(_: float) -> float:
    return 1.0


def _line(x: float) -> float:
    return 1 - x


def _power(power: float, x: float) -> float:
    return float((1 - x) ** power)


def _cosine(x: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * x))
