"""The last stage: batches to the device, and transforms there."""

from collections import deque
from collections.abc import Callable, Iterator

import torch

from hotlap.common.nested import mapped
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Fetched
from hotlap.data.order import Draws
from hotlap.data.prefetch import DevicePrefetcher
from hotlap.data.transforms.base import Batched, apply

Rows = Iterator[tuple[Step, Fetched]]
ToDevice = Callable[[Step, Fetched], Fetched]


class Stage:
    """Copies each batch to `device`, one ahead on CUDA, and transforms it there.

    Args:
        device: None leaves batches where they are read.
        transform: batched transforms, or one function of a batch.
        seed: of the transforms' draws.
        to_device: brings one batch to the device; by default by copying each tensor of it.
    """

    def __init__(
        self,
        device: torch.device | None,
        transform: tuple[Batched, ...] | Callable[[object], object],
        seed: int,
        to_device: ToDevice | None = None,
    ) -> None:
        self._device = device
        self._to_device = to_device or self._copied
        self._transform = transform
        self._seed = seed
        self._copying: deque[tuple[torch.cuda.Event, object]] = deque()

    def run(self, rows: Rows) -> Iterator[tuple[Step, Fetched]]:
        """Yield each step with its batch, ready for the model."""
        if self._device is None or self._device.type != "cuda":
            for step, fetched in rows:
                yield step, self._ready(step, self._to_device(step, fetched))
            return
        ahead = DevicePrefetcher((), self._device, move=self._start)
        for value, step, replaced in ahead.ahead(rows):
            yield step, Fetched(value, replaced)
        torch.cuda.current_stream(self._device).synchronize()
        self._copying.clear()

    def _copied(self, step: Step, fetched: Fetched) -> Fetched:
        del step
        if self._device is None:
            return fetched
        value = mapped(fetched.value, lambda t: t.to(self._device, non_blocking=True))
        return Fetched(value, fetched.replaced)

    def _start(self, row: tuple[Step, Fetched]) -> object:
        """Queue copy and transforms on the present stream; hold the source until it is copied."""
        step, fetched = row
        on_device = self._to_device(step, fetched)
        copied: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        copied.record()
        self._copying.append((copied, fetched.value))
        while self._copying and self._copying[0][0].query():  # type: ignore[no-untyped-call]
            self._copying.popleft()
        ready = self._ready(step, on_device)
        return ready.value, step, ready.replaced

    def _ready(self, step: Step, fetched: Fetched) -> Fetched:
        if callable(self._transform):
            return Fetched(self._transform(fetched.value), fetched.replaced)
        if not self._transform:
            return fetched
        images, labels, rest = _parts(fetched.value)
        draws = Draws(self._seed, step.epoch, step.draw_ids)
        images, labels = apply(self._transform, (images, labels), draws)
        value = images if labels is None else (images, labels, *rest)
        return Fetched(value, fetched.replaced)


def _parts(value: object) -> tuple[torch.Tensor, torch.Tensor | None, tuple[object, ...]]:
    if isinstance(value, torch.Tensor):
        return value, None, ()
    if isinstance(value, tuple | list) and value and isinstance(value[0], torch.Tensor):
        return value[0], value[1] if len(value) > 1 else None, tuple(value[2:])
    raise TypeError(
        f"batched transforms need images, or (images, labels, ...), not {type(value).__name__}: "
        "give a function of the batch as transform"
    )
