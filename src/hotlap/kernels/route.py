"""Whether a call takes torch's own function or the operator: measured with its backward pass."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from hotlap.common.plain import PLAIN
from hotlap.kernels.dispatch import Dispatcher, bucket, choose, pinned_name, remembered

SMALLEST = 1 << 14
"""Elements below which the call through torch.library costs more than a kernel can save."""


class Route:
    """Calls torch's own function, or the operator where it was measured to be faster.

    The operator goes through torch.library and Python's autograd, which torch's own function does
    not; both are therefore timed as a whole, backward pass included.

    Args:
        forward: the operator's implementations.
        torchs: torch's own function, with the arguments of `forward`.
        operator: the registered operator, with the same arguments.
    """

    def __init__(
        self,
        forward: Dispatcher[object],
        torchs: Callable[..., Tensor],
        operator: Callable[..., Tensor],
    ) -> None:
        self.forward = forward
        self.functions = {"torch": torchs, "operator": operator}
        self._chosen: dict[str, str] = {}

    def __call__(self, x: Tensor, *rest: object) -> Tensor:
        """Compute it."""
        return self.functions[self.choice(x, *rest)](x, *rest)

    def choice(self, x: Tensor, *rest: object) -> str:
        """Return `torch` or `operator`.

        Under torch.compile torch's own function is traced, which inductor fuses with its
        neighbours. An operator whose implementation is pinned is always called.
        """
        pinned = pinned_name(self.forward.name)
        if pinned:
            return "torch" if pinned == "torch" else "operator"
        if torch.compiler.is_compiling() or not self._measurable(x, *rest):
            return "torch"
        graded = torch.is_grad_enabled() and any(
            isinstance(a, Tensor) and a.requires_grad for a in (x, *rest)
        )
        key = bucket(f"{self.forward.name} call", (x, *rest, graded))
        if key not in self._chosen:
            found = remembered(key, self.functions)
            self._chosen[key] = found or self._measured(key, x, rest, graded=graded)
        return self._chosen[key]

    def _measurable(self, x: Tensor, *rest: object) -> bool:
        """A plain tensor, of a size that is worth it, that something besides torch serves."""
        return (
            is_plain(x)
            and x.numel() >= SMALLEST
            and len(self.forward.able(x, *rest)) > 1
            and not (x.is_cuda and torch.cuda.is_current_stream_capturing())
        )

    def _measured(self, key: str, x: Tensor, rest: tuple[object, ...], *, graded: bool) -> str:
        try:
            leaves = [
                a.detach().requires_grad_(graded and a.is_floating_point())
                if isinstance(a, Tensor)
                else a
                for a in (x, *rest)
            ]
            calls = {n: partial(_run, f, leaves, graded) for n, f in self.functions.items()}
            with saved_tensors_hooks(_same, _same):  # checkpointing counts what is saved
                return choose(key, calls, x)
        except torch.OutOfMemoryError:
            return "torch"


def is_plain(x: object) -> bool:
    """Whether it is no subclass (DTensor), nor inside a FLOP counter, vmap or torch.func.grad."""
    return (
        type(x) in PLAIN
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
    )


def _run(function: Callable[..., Tensor], arguments: list[object], graded: bool) -> None:
    out = function(*arguments)
    if graded:
        leaves = [a for a in arguments if isinstance(a, Tensor) and a.requires_grad]
        torch.autograd.grad(out, leaves, out.detach())


def _same(tensor: Tensor) -> Tensor:
    return tensor
