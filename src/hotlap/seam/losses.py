"""The losses of each step, recorded without waiting for the device.

A loss is what gradients are computed of: by `backward`, in any of its forms; or, in a step without
that, the scalars that are handed to `torch.autograd.grad`, as `torch.func.grad` does as well.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import torch
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor

from hotlap.core.protocol import Losses as Figures
from hotlap.seam.patch import read_once, replaced
from hotlap.seam.steps import within_gradients

TAG = "_hotlap_unscaled"


class Losses:
    """Collects what gradients are computed of: one figure a step, the mean over micro-batches."""

    def __init__(self) -> None:
        self._now: list[torch.Tensor] = []
        self._else: list[torch.Tensor] = []
        self._steps: list[list[torch.Tensor]] = []

    @contextmanager
    def recording(self, first: Callable[[], None]) -> Iterator[None]:
        """Record all computations of gradients; `first` is called at the first backward pass."""
        seen: list[bool] = []

        def backward(losses: Sequence[torch.Tensor]) -> None:
            if not seen:
                seen.append(True)
                first()
            self._now += map(_figure, losses)

        def grad(outputs: Sequence[torch.Tensor]) -> None:
            self._else += [_figure(one) for one in outputs if one.numel() == 1]

        with (
            replaced(torch.autograd, "backward", _telling(backward, "tensors")),
            replaced(torch.autograd, "grad", _telling(grad, "outputs")),
            _unscaled(),
        ):
            yield

    def step(self) -> int:
        """A step is over: what was collected belongs to it. Returns how many losses that is."""
        self._steps.append(self._now or self._else)
        self._now, self._else = [], []
        return len(self._steps[-1])

    def take(self) -> Figures:
        """The figures of the steps since last asked, one synchronisation for all of them."""
        steps, self._steps = self._steps, []
        return [_mean(step) for step in steps]


def _telling(tell: Callable[[Sequence[torch.Tensor]], None], name: str) -> Callable[..., object]:
    """A function of torch.autograd whose tensors, in its argument `name`, are given to `tell`.

    Whatever is odd about them, the program goes on; its iterators are read once, for both.
    """

    def make(original: Callable[..., object]) -> object:
        def compute(*args: object, **kwargs: object) -> object:
            if within_gradients():
                return original(*args, **kwargs)
            args, kwargs = read_once(args, kwargs)
            with suppress(Exception):
                given = args[0] if args else kwargs[name]
                several = [given] if isinstance(given, torch.Tensor) else given
                tell([one for one in several if isinstance(one, torch.Tensor)])  # type: ignore[attr-defined]
            return original(*args, **kwargs)

        return compute

    return make


def _figure(loss: torch.Tensor) -> torch.Tensor:
    """The loss before the script's GradScaler, or the mean of its elements.

    A copy: the program may write to it, and what it is a view of would stay in memory. Within a
    transform of torch.func, what lies outside of all transforms: a copy would end with them.
    """
    loss = getattr(loss, TAG, loss).detach()
    if is_functorch_wrapped_tensor(loss):
        while is_functorch_wrapped_tensor(loss):
            loss = get_unwrapped(loss)
        return loss
    return loss.clone() if loss.numel() == 1 else loss.double().mean()


def _mean(losses: list[torch.Tensor]) -> float | None:
    """Their mean; None where there is none that has a value, as on the meta device."""
    figures = []
    for loss in losses:
        with suppress(Exception):
            figures.append(loss.double().mean().item())
    return sum(figures) / len(figures) if figures else None


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
