"""Counts the floating-point operations of matrix products and convolutions in one step.

By torch's own formulas (`torch.utils.flop_counter`), with the CPU's fused attention and the fused
recurrent layers of oneDNN and cuDNN added. A plain dispatch mode: unlike `FlopCounterMode` it puts
no hooks on the modules.
"""

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from hotlap.common.apart import Apart

BACKENDS = ("CPU", "CUDA")
ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


def _attention(query: Tensor, key: Tensor, value: Tensor, *_: object, **__: object) -> int:
    return int(sdpa_flop_count(query.shape, key.shape, value.shape))  # type: ignore[no-untyped-call]


def _attention_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: object, **__: object
) -> int:
    shapes = (grad.shape, query.shape, key.shape, value.shape)
    return int(sdpa_backward_flop_count(*shapes))  # type: ignore[no-untyped-call]


def _recurrent(tokens: Tensor, weights: Sequence[Tensor]) -> int:
    """Each weight matrix is multiplied with each of the tokens once; biases do not count."""
    return 2 * (tokens.numel() // tokens.shape[-1]) * sum(w.numel() for w in weights if w.dim() > 1)


def _onednn(tokens: Tensor, of_input: Tensor, of_hidden: Tensor, *_: object, **__: object) -> int:
    return _recurrent(tokens, (of_input, of_hidden))


def _cudnn(tokens: Tensor, weights: Sequence[Tensor], *_: object, **__: object) -> int:
    return _recurrent(tokens, weights)


def _twice(formula: Callable[..., int]) -> Callable[..., int]:
    """The formula of a backward operator that begins with its forward's arguments.

    A product's gradients to both of its factors take as much as the product each.
    """
    return lambda *args, **kwargs: 2 * formula(*args, **kwargs)


def formulas() -> dict[object, Callable[..., int]]:
    """The formula of each operator that has one: (arguments, `out_val` the result) -> FLOPs."""
    aten: object = torch.ops.aten
    ours: dict[str, Callable[..., int]] = {
        ATTENTION: _attention, f"{ATTENTION}_backward": _attention_backward,
        "mkldnn_rnn_layer": _onednn, "mkldnn_rnn_layer_backward": _twice(_onednn),
        "_cudnn_rnn": _cudnn, "_cudnn_rnn_backward": _twice(_cudnn),
    }  # fmt: skip
    found = {getattr(aten, name): formula for name, formula in ours.items() if hasattr(aten, name)}
    return {**found, **flop_registry}


@cache
def _has_kernel(func: torch._ops.OpOverload) -> bool:
    """Whether an operator has a kernel of its own, whose bits its decomposition need not have.

    As `silu_backward` has. Of those that are nothing but others, such as `matmul` under
    `inference_mode`, the parts are counted.
    """
    name = func.name()  # type: ignore[no-untyped-call]
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in BACKENDS)


class FlopCount(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up `total` while it is entered."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0
        self.failed = ""
        self._formulas = formulas()
        self._apart = Apart()

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run one operator and count it."""
        kwargs = kwargs or {}
        formula = self._formulas.get(getattr(func, "_overloadpacket", func))
        if formula is None and isinstance(func, torch._ops.OpOverload) and not _has_kernel(func):
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        result = func(*args, **kwargs)
        if isinstance(func, torch._ops.OpOverload):
            self._apart.note(func, result)
        if formula is not None:
            self._count(formula, args, {**kwargs, "out_val": result})
        return result

    def _count(
        self, formula: Callable[..., int], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        try:
            self.total += int(formula(*args, **kwargs))
        except Exception as error:  # a formula must not end the program
            self.failed = repr(error)
