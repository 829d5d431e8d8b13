"""Batches on the device, in the layout the model wants."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from hotlap.common.nested import mapped
from hotlap.data import DevicePrefetcher


class Placement:
    """Moves batches (nested structures of tensors) to `device`.

    With `channels_last`, 4-D floating point tensors become NHWC. With `prefetch`, on CUDA, each
    batch is copied while the one before it computes.
    """

    def __init__(self, device: torch.device, *, channels_last: bool, prefetch: bool) -> None:
        self.device = device
        self._layout = channels_last
        self._prefetch = prefetch and device.type == "cuda"
        self._idle = device.type == "cpu" and not channels_last

    def __call__(self, batch: object) -> Any:
        """One batch, on the device; copies from pinned memory are not waited for."""
        return batch if self._idle else mapped(batch, self._tensor)

    def each(self, batches: Iterable[object]) -> Iterator[Any]:
        """Every batch of an iterable, on the device."""
        if self._idle:
            return iter(batches)
        move: Callable[[Any], object] = self
        if self._prefetch:
            return DevicePrefetcher(batches, self.device, move=move).ahead(iter(batches))
        return map(move, batches)

    def _tensor(self, tensor: Tensor) -> Tensor:
        moved = tensor.to(self.device, non_blocking=True)
        if self._layout and moved.dim() == 4 and moved.is_floating_point():
            return moved.contiguous(memory_format=torch.channels_last)
        return moved
