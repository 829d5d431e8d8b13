"""Batches on the device, in the layout the model wants."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from hotlap.common.nested import mapped
from hotlap.data import DevicePrefetcher
from hotlap.engine.accumulation import Batch


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

    def __call__(self, batch: Batch) -> Batch:
        """One batch, on the device; copies from pinned memory are not waited for."""
        if self._idle:
            return batch
        moved: Batch = mapped(batch, self._tensor)
        return moved

    def each(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Every batch of an iterable, on the device."""
        if self._idle:
            return iter(batches)
        if self._prefetch:
            return DevicePrefetcher(batches, self.device, move=self).ahead(iter(batches))
        return map(self, batches)

    def _tensor(self, tensor: Tensor) -> Tensor:
        moved = tensor.to(self.device, non_blocking=True)
        if self._layout and moved.dim() == 4 and moved.is_floating_point():
            return moved.contiguous(memory_format=torch.channels_last)
        return moved
