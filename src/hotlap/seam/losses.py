"""The losses of each step, recorded without waiting for the device."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from hotlap.seam.patch import replaced

TAG = "_hotlap_unscaled"


class Losses:
    """Collects what `backward` is called on; one figure a step (the mean over micro-batches)."""

    def __init__(self) -> None:
        self._now: list[torch.Tensor] = []
        self._steps: list[list[torch.Tensor]] = []

    @contextmanager
    def recording(self, first: Callable[[], None]) -> Iterator[None]:
        """Record every `Tensor.backward`; `first` is called at the first one."""
        seen: list[bool] = []

        def make(original: Callable[..., object]) -> object:
            def backward(tensor: torch.Tensor, *args: object, **kwargs: object) -> object:
                if not seen:
                    seen.append(True)
                    first()
                self._now.append(getattr(tensor, TAG, tensor).detach())
                return original(tensor, *args, **kwargs)

            return backward

        with replaced(torch.Tensor, "backward", make), _unscaled():
            yield

    def step(self) -> int:
        """A step is over: what was collected belongs to it. Returns how many losses that is."""
        self._steps.append(self._now)
        self._now = []
        return len(self._steps[-1])

    def take(self) -> list[float]:
        """The figures of the steps since last asked, one synchronisation for all of them."""
        steps, self._steps = self._steps, []
        return [_mean(step) for step in steps]


def _mean(losses: list[torch.Tensor]) -> float:
    figures = [loss.double().mean().item() for loss in losses]
    return sum(figures) / len(figures) if figures else float("nan")


@contextmanager
def _unscaled() -> Iterator[None]:
    """Remember the loss itself where the script's GradScaler multiplies it."""

    def make(original: Callable[..., object]) -> object:
        def scale(self: object, outputs: torch.Tensor) -> object:
            scaled = original(self, outputs)
            if isinstance(scaled, torch.Tensor) and scaled is not outputs:
                setattr(scaled, TAG, outputs.detach())
            return scaled

        return scale

    with replaced(torch.amp.GradScaler, "scale", make):
        yield
