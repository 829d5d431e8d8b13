"""Gradient accumulation: which micro-batches make one step, and what each one's loss weighs."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from hotlap.common import ranks

Batch = TypeVar("Batch")


class Share(NamedTuple):
    """One micro-batch's part in its step.

    `over` is what its mean loss is divided by, `last` whether the step follows it, `of`
    how many micro-batches make the step.
    """

    over: float | Tensor = 1.0
    last: bool = True
    of: int = 1


ALONE = Share()


def grouped(
    batches: Iterable[Batch],
    size: int,
    weigh: Callable[[Batch], float] | None = None,
    device: torch.device | None = None,
) -> Iterator[tuple[Batch, Share]]:
    """Yield (batch, share), `size` micro-batches to a step; the last group may be smaller.

    A group is read before its first batch is handed out, so that losses are scaled by the number of
    micro-batches there really are. With `weigh` (the number of tokens that count in a batch, say)
    they are scaled by their share of the group's total instead: the step is that of the mean over
    all tokens. Under torch.distributed the total is that of all ranks: summed on `device`, without
    waiting for it, and scaled for the averaging that DDP and FSDP do.
    """
    if size == 1 and weigh is None:
        yield from ((batch, ALONE) for batch in batches)
        return
    reader = iter(batches)
    while group := list(islice(reader, size)):
        divisors = _divisors(group, weigh, device)
        number = len(group)
        for index, divisor in enumerate(divisors, start=1):
            yield group.pop(0), Share(divisor, index == number, number)


def _divisors(
    group: list[Batch], weigh: Callable[[Batch], float] | None, device: torch.device | None
) -> Sequence[float | Tensor]:
    if weigh is None:
        return [float(len(group))] * len(group)
    weights = [float(weigh(batch)) for batch in group]
    total = sum(weights)
    if ranks.started():
        return _over_ranks(weights, total, device)
    if not total > 0:
        raise ValueError(f"the weights of a step's {len(group)} micro-batches add up to {total}")
    return [total / weight if weight else math.inf for weight in weights]


def _over_ranks(weights: list[float], total: float, device: torch.device | None) -> list[Tensor]:
    summed = torch.tensor(total, device=device)
    torch.distributed.all_reduce(summed)
    each = summed / ranks.world_size()
    return [each / weight for weight in weights]  # infinite where a batch weighs nothing
