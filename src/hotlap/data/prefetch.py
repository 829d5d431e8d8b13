"""Copy the next batch to the device while the present one computes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from hotlap.common.nested import mapped, tensors

Move = Callable[[Any], object]


class DevicePrefetcher:
    """Iterates a loader and yields its batches on `device`, one batch ahead.

    On CUDA the copies run on a stream of their own; they overlap with the kernels where the
    batches lie in pinned memory (`DataLoader(..., pin_memory=True)`). On a CPU device batches pass
    through as they are.

    Args:
        loader: anything that can be iterated again and again, such as a DataLoader.
        device: where batches go.
        move: copies one batch; by default every tensor in it, without waiting.
        transform: runs on each batch once it is on the device, on the copying stream:
            normalisation, for example.
    """

    def __init__(
        self,
        loader: Iterable[object],
        device: torch.device | str | int,
        *,
        move: Move | None = None,
        transform: Move | None = None,
    ) -> None:
        self.loader = loader
        self.device = _device(device)
        self._move = move or self._all
        self._transform = transform or _as_it_is

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        if self.device.type != "cuda":
            return (self._transform(self._move(batch)) for batch in self.loader)
        return self.ahead(iter(self.loader))

    def ahead(self, batches: Iterator[object]) -> Iterator[Any]:
        """Yield the batches of an iterator already under way, copied one batch ahead."""
        stream: torch.cuda.Stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        following = self._start(batches, stream)
        while following is not None:
            (batch,) = following
            _wait(batch, stream, self.device)
            following = self._start(batches, stream)
            yield batch

    def _start(self, batches: Iterator[object], stream: torch.cuda.Stream) -> tuple[object] | None:
        """Queue the copy of the next batch; None when there is no other."""
        try:
            batch = next(batches)
        except StopIteration:
            return None
        with torch.cuda.stream(stream):
            return (self._transform(self._move(batch)),)

    def _all(self, batch: object) -> object:
        return mapped(batch, lambda tensor: tensor.to(self.device, non_blocking=True))


def _wait(batch: object, stream: torch.cuda.Stream, device: torch.device) -> None:
    """Kernels wait for the copy; its memory is not reused before they are done with it."""
    current = torch.cuda.current_stream(device)
    current.wait_stream(stream)
    for tensor in tensors(batch):
        if tensor.is_cuda:
            tensor.record_stream(current)


def _device(device: torch.device | str | int) -> torch.device:
    if isinstance(device, int):
        return torch.device("cuda", device)
    return torch.device(device)


def _as_it_is(batch: object) -> object:
    return batch
