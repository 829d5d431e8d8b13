"""A real GradScaler at the seams: backward scales, clipping and step unscale, infinities skip.

Where the script's own GradScaler would be called by the script, this one is called by the seams:
`torch.autograd.backward` (which `Tensor.backward` ends in), `clip_grad_norm_` and
`clip_grad_value_`, and `step` of every optimizer class in use.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from weakref import WeakSet

import torch
from torch.amp.grad_scaler import OptState
from torch.optim import LBFGS
from torch.optim.optimizer import Optimizer

from hotlap.seam.moves import Context
from hotlap.seam.patch import Maker, replaced

CLIPS = ("clip_grad_norm_", "clip_grad_value_", "get_total_norm")
MARK = "hotlap_scaled"
Closure = Callable[[], object] | None


@contextmanager
def loss_scaling(context: Context) -> Iterator[None]:
    """Scale losses, if the chosen `dtype` is float16; bfloat16 has float32's range."""
    if context.values["dtype"] != "float16" or not torch.cuda.is_available():
        yield
        return
    with scaling(context, torch.amp.GradScaler("cuda")):
        yield


@contextmanager
def scaling(context: Context, scaler: torch.amp.GradScaler) -> Iterator[None]:
    """Call `scaler` where the loss is back-propagated, gradients are clipped, and steps made."""
    seams = _Seams(context, scaler)
    with ExitStack() as undo:
        undo.enter_context(replaced(torch.autograd, "backward", seams.backward))
        undo.enter_context(replaced(torch.autograd, "grad", seams.grad))
        undo.enter_context(replaced(torch.amp.GradScaler, "scale", seams.other_scale))
        for module in (torch.nn.utils, torch.nn.utils.clip_grad):
            for name in filter(partial(hasattr, module), CLIPS):
                undo.enter_context(replaced(module, name, seams.clip))
        undo.enter_context(replaced(Optimizer, "_patch_step_function", seams.construction(undo)))
        try:
            yield
        finally:
            seams.on = False


class _Seams:
    """The wrappers, and what they have to know of each other."""

    def __init__(self, context: Context, scaler: torch.amp.GradScaler) -> None:
        self.on = True
        self._context = context
        self._scaler = scaler
        self._optimizers: WeakSet[Optimizer] = WeakSet()
        self._stepped = False
        self._inside = False
        self._below = False

    # backward

    def backward(self, original: Callable[..., object]) -> object:
        @wraps(original)
        def backward(
            tensors: torch.Tensor | Iterable[torch.Tensor], *args: object, **kwargs: object
        ) -> object:
            if not self.on or self._below:  # a reentrant checkpoint's backward inside the outer
                return original(tensors, *args, **kwargs)
            scaled = self._scaled(tensors)
            self._below = True
            try:
                return original(scaled, *args, **kwargs)
            finally:
                self._below = False

        return backward

    def _scaled(self, tensors: torch.Tensor | Iterable[torch.Tensor]) -> object:
        """Scale losses; the scale moves only here, between a step and the next backward."""
        if self._stepped:
            self._scaler.update()
            self._stepped = False
        losses = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        if any(loss.device.type != self._scaler._device for loss in losses):
            self._give_up(f"a loss is not on a {self._scaler._device} device")
            return losses
        self._context.held()
        return [self._scaler.scale(loss) for loss in losses]

    def grad(self, original: Callable[..., object]) -> object:
        @wraps(original)
        def grad(*args: object, **kwargs: object) -> object:
            if self.on:
                self._context.inert("torch.autograd.grad is called: its gradients are not scaled")
            return original(*args, **kwargs)

        return grad

    def other_scale(self, original: Callable[..., object]) -> object:
        @wraps(original)
        def scale(scaler: torch.amp.GradScaler, outputs: object) -> object:
            if self.on and scaler is not self._scaler and scaler.is_enabled():
                self._give_up("the script scales its loss already")
            return original(scaler, outputs)

        return scale

    def _give_up(self, why: str) -> None:
        self._context.inert(why)
        self.on = False

    # clipping

    def clip(self, original: Callable[..., object]) -> object:
        @wraps(original)
        def clip(*args: object, **kwargs: object) -> object:
            if self.on:
                for optimizer in self._optimizers:
                    self._unscale(optimizer)
            return original(*args, **kwargs)

        return clip

    def _unscale(self, optimizer: Optimizer) -> None:
        """Unscale gradients that are there and still scaled."""
        if self._scaler._scale is None or not _has_gradients(optimizer):
            return
        if self._scaler._per_optimizer_states[id(optimizer)]["stage"] is OptState.READY:
            self._scaler.unscale_(optimizer)

    # step

    def construction(self, undo: ExitStack) -> Maker:
        """Optimizers are met as they are built: torch hooks each class's `step` at that time."""

        def make(original: Callable[..., object]) -> object:
            @wraps(original)
            def _patch_step_function(optimizer: Optimizer) -> None:
                original(optimizer)
                if not self.on:
                    return
                self._optimizers.add(optimizer)
                if not hasattr(type(optimizer).step, MARK):
                    undo.enter_context(replaced(type(optimizer), "step", self.step))
                if isinstance(optimizer, LBFGS):
                    self._give_up("LBFGS evaluates its closure several times a step")

            return _patch_step_function

        return make

    def step(self, original: Callable[..., object]) -> object:
        @wraps(original)
        def step(optimizer: Optimizer, closure: Closure = None, **kwargs: object) -> object:
            if not self.on or self._inside:
                given = (closure,) if closure is not None else ()
                return original(optimizer, *given, **kwargs)
            loss = _evaluated(closure)
            if self._scaler._scale is None or not _has_gradients(optimizer):
                original(optimizer, **kwargs)
                return loss
            self._step(optimizer, kwargs)
            return loss

        setattr(step, MARK, True)
        return step

    def _step(self, optimizer: Optimizer, kwargs: dict[str, object]) -> None:
        if self._scaler._per_optimizer_states[id(optimizer)]["stage"] is OptState.STEPPED:
            self._scaler.update()  # a second step without a backward in between
        self._inside = True
        try:
            self._scaler.step(optimizer, **kwargs)
        finally:
            self._inside = False
        self._stepped = True


def _evaluated(closure: Closure) -> object:
    """Run the closure before the step, as the optimizers that call it once would."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def _has_gradients(optimizer: Optimizer) -> bool:
    return any(p.grad is not None for group in optimizer.param_groups for p in group["params"])
