"""Figures on their way from the device: asked for now, handed out when they have arrived."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

Value = float | Tensor


class _Reading(NamedTuple):
    step: int
    values: dict[str, Value]
    event: torch.cuda.Event | None

    def arrived(self) -> bool:
        return self.event is None or bool(self.event.query())  # type: ignore[no-untyped-call]


class Readings:
    """Copies figures to the host without waiting for the device."""

    def __init__(self) -> None:
        self._waiting: deque[_Reading] = deque()

    def put(self, step: int, values: Mapping[str, Value]) -> None:
        """Ask for the present value of 0-d tensors; plain numbers come along."""
        copies = {name: _copy(value) for name, value in values.items()}
        event = None
        if any(isinstance(v, Tensor) and v.is_cuda for v in values.values()):
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
        self._waiting.append(_Reading(step, copies, event))

    def arrived(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield (step, figures) of what has arrived, in order."""
        while self._waiting and self._waiting[0].arrived():
            yield self._next()

    def rest(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield everything that was asked for, waiting where need be."""
        while self._waiting:
            event = self._waiting[0].event
            if event is not None:
                event.synchronize()
            yield self._next()

    def _next(self) -> tuple[int, dict[str, float]]:
        reading = self._waiting.popleft()
        return reading.step, {name: float(value) for name, value in reading.values.items()}


def _copy(value: Value) -> Value:
    if not isinstance(value, Tensor):
        return value
    value = value.detach()
    if not value.is_cuda:
        return value.clone()
    host = torch.empty_like(value, device="cpu", pin_memory=True)
    return host.copy_(value, non_blocking=True)
