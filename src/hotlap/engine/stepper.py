"""Backward and update, in the one order that is right."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

Clipper = Callable[[list[Tensor], float], Tensor]


class Stepper:
    """Unscale, clip, step, update the scale, zero the gradients to None, schedule.

    Args:
        optimizer: steps.
        scheduler: steps once per optimizer step that was really made.
        scaler: for float16; a step with infinities in the gradients is left out, and the scheduler
            then does not step either.
        clip: largest norm of all gradients together; 0: not clipped.
        parameters: what is clipped; by default all that the optimizer has.
        clipper: clips them, called with parameters and norm; by default torch's `clip_grad_norm_`.
            Where ranks hold shards, `hotlap.parallel.norms.clip_grad_norm_`.

    Attributes:
        norm: the gradients' norm before clipping, as a 0-d tensor; None without `clip`.
        pending: whether gradients wait for an update.

    Raises:
        TypeError: a scheduler that wants a metric.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        *,
        scheduler: LRScheduler | None = None,
        scaler: GradScaler | None = None,
        clip: float = 0.0,
        parameters: Iterable[Tensor] | None = None,
        clipper: Clipper = clip_grad_norm_,
    ) -> None:
        if isinstance(scheduler, ReduceLROnPlateau):
            raise TypeError(
                "ReduceLROnPlateau wants a metric, which a step has not: step it yourself"
            )
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.scaler = scaler
        self.clip = clip
        self.norm: Tensor | None = None
        self.pending = False
        groups = optimizer.param_groups
        self._parameters = list(parameters or (p for group in groups for p in group["params"]))
        self._clipper = clipper
        self._ran = True
        if scaler is not None:
            optimizer.register_step_post_hook(self._note)

    def backward(self, loss: Tensor, over: float | Tensor = 1.0) -> None:
        """Add the gradients of `loss / over` to those that are there."""
        if isinstance(over, Tensor) or over != 1.0:
            loss = loss / over
        if self.scaler is not None:
            loss = self.scaler.scale(loss)
        loss.backward()  # type: ignore[no-untyped-call]
        self.pending = True

    def update(self) -> bool:
        """Make the optimizer step; False if it was left out for infinities."""
        if self.clip:
            if self.scaler is not None:
                self.scaler.unscale_(self.optimizer)
            self.norm = self._clipper(self._parameters, self.clip)
        if self.scaler is None:
            self.optimizer.step()
            made = True
        else:
            made = self._scaled_step(self.scaler)
        self.optimizer.zero_grad(set_to_none=True)
        self.pending = False
        if made and self.scheduler is not None:
            self.scheduler.step()
        return made

    def _scaled_step(self, scaler: GradScaler) -> bool:
        """Step if the gradients are finite.

        The scaler itself looks at them on the host, but for optimizers that take the scale into
        their kernel. Of those only the scale tells, and reading it waits for the device: it is
        read where a scheduler has to know.
        """
        silent = hasattr(self.optimizer, "_step_supports_amp_scaling")
        asked = silent and self.scheduler is not None
        before = scaler.get_scale() if asked else 0.0
        self._ran = False
        scaler.step(self.optimizer)
        scaler.update()
        return scaler.get_scale() >= before if asked else self._ran

    def _note(self, *_: object) -> None:
        self._ran = True


def scaler_for(device: torch.device) -> GradScaler:
    """A loss scaler for float16 on this device."""
    return GradScaler(device.type)
