"""The learning-rate range test of a loop of one's own."""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader

from hotlap.common import ranks
from hotlap.optim.sweep import Divergence, Sweep, geometric
from hotlap.optim.training_snapshot import restored

Loss = Callable[[nn.Module, Any], Tensor]


def lr_range_test(  # noqa: PLR0913
    model: nn.Module,
    optimizer: Optimizer,
    loader: Iterable[object],
    loss: Loss,
    *,
    start: float = 1e-6,
    end: float = 10.0,
    steps: int = 120,
    divergence: float = 4.0,
) -> Sweep:
    """Train for `steps` steps while the learning rate rises from `start` to `end`, and undo it all.

    Smith 2017, "Cyclical Learning Rates for Training Neural Networks". Afterwards the model, the
    optimizer, the random number generators and the loader are bitwise as before, so that training
    can begin, or go on, as if nothing had been; see `hotlap.optim.training_snapshot.restored`. What
    a module keeps in other attributes than parameters and buffers is not put back.

    Several parameter groups keep the proportion of their rates; the sweep gives the rate of the
    highest. Where torch.distributed is initialised, all ranks must call this, and their losses are
    averaged.

    Args:
        model: in the mode that it trains in.
        optimizer: built for the model; any of torch's, closures included.
        loader: a DataLoader, or anything that can be iterated again and again.
        loss: from (model, batch) to a scalar; its `backward` is called here.
        start: the first rate.
        end: the last rate.
        steps: how many steps to make; the loader is started anew when it is through.
        divergence: stop when the loss has risen to so many times its best.

    Raises:
        ValueError: rates or steps that make no curve, a loader that is an iterator or empty.
    """
    rates = geometric(start, end, steps)
    if hasattr(loader, "__next__"):
        raise ValueError("loader is an iterator, which cannot be put back; give what it came from")
    with restored(model, optimizer, loader):
        return _sweep(optimizer, rates, _losses(model, optimizer, loader, loss), divergence)


def _sweep(
    optimizer: Optimizer, rates: list[float], losses: Iterator[float], divergence: float
) -> Sweep:
    shares = _shares(optimizer)
    watch = Divergence(divergence)
    seen: list[float] = []
    for rate in [*rates, rates[-1]]:  # one step more, for the loss after the last
        set_rate(optimizer, rate, shares)
        seen.append(next(losses))
        if watch.add(seen[-1]):
            break
    ended = "end of the sweep" if len(seen) > len(rates) else "diverged"
    return Sweep(seen[0], tuple(rates[: len(seen) - 1]), tuple(seen[1:]), ended)


def _losses(
    model: nn.Module, optimizer: Optimizer, loader: Iterable[object], loss: Loss
) -> Iterator[float]:
    """Make a step for each value that is taken; its value is the loss before the step."""
    for batch in _batches(loader):

        def closure(batch: object = batch) -> Tensor:
            optimizer.zero_grad()
            with torch.enable_grad():
                value = loss(model, batch)
            value.backward()  # type: ignore[no-untyped-call]
            return value.detach()

        step: Any = optimizer.step  # closures that give tensors are what torch means
        found = step(closure)
        yield _agreed(found)


def _batches(loader: Iterable[object]) -> Iterator[object]:
    """Batches without end."""
    if isinstance(loader, DataLoader):
        loader = copy.copy(loader)  # workers of its own: the loader's stay where they are
        vars(loader).update(persistent_workers=False, _iterator=None)
    while True:
        empty = True
        for batch in loader:
            empty = False
            yield batch
        if empty:
            raise ValueError("the loader gives no batches")


def _shares(optimizer: Optimizer) -> list[float]:
    """Each group's rate as a share of the highest."""
    rates = [float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups]
    top = max(rates)
    return [rate / top if top > 0 else 1.0 for rate in rates]


def set_rate(optimizer: Optimizer, rate: float, shares: list[float]) -> None:
    """Set the groups' learning rates, in place where they are tensors."""
    for group, share in zip(optimizer.param_groups, shares, strict=True):
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate * share)
        else:
            group["lr"] = rate * share


def _agreed(loss: float | Tensor) -> float:
    """The loss, averaged over ranks so that all of them stop at the same step."""
    if ranks.started():
        value = torch.as_tensor(loss).detach().clone()
        torch.distributed.all_reduce(value)
        return float(value) / ranks.world_size()
    return float(loss)
