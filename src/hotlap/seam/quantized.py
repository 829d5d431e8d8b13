"""Linear layers of models that only answer, in 8-bit integers."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import update_wrapper
from types import MethodType
from weakref import WeakSet, ref

import torch
from torch import Tensor
from torch.nn import Linear, Module, MultiheadAttention, TransformerEncoderLayer

from hotlap.seam.moves import Context
from hotlap.seam.patch import with_globals_of
from hotlap.seam.roots import CallRoot, Order

LARGEST_INT8 = 127
LEAST_SCALE = 1e-12  # of a row of zeros


@contextmanager
def int8_linear(context: Context) -> Iterator[None]:
    """Compute the nn.Linear layers of each root in 8-bit integers; undone on exit.

    The layers stay in the model with their weights, so that whatever reads those finds them. A
    root's layers are changed at its first call without gradients: by then its weights are loaded.
    """
    changed: WeakSet[Linear] = WeakSet()

    def maker(root: Module, inner: CallRoot) -> CallRoot | None:
        waits = True

        def call(root: Module, *args: object, **kwargs: object) -> object:
            nonlocal waits
            if waits and not torch.is_grad_enabled():
                waits = False
                found = quantizable(root)
                for layer in found:
                    layer.forward = MethodType(FORWARD, Int8(layer))  # type: ignore[method-assign]
                changed.update(found)
                if found:
                    context.held(f"{len(found)} layers of {type(root).__name__}")
            return inner(root, *args, **kwargs)

        return call

    context.seams.roots.add(Order.CHANNELS_LAST, maker, context.failed)
    try:
        yield
    finally:
        for layer in changed:
            vars(layer).pop("forward", None)


def quantizable(root: Module) -> list[Linear]:
    """The modules that are exactly nn.Linear, in float32 on a CPU, and called by their owner.

    Attention and encoder layers of torch read the weights of theirs by themselves.
    """
    found = {
        child
        for owner in root.modules()
        if not isinstance(owner, MultiheadAttention | TransformerEncoderLayer)
        for child in owner.children()
    }
    return [m for m in root.modules() if m in found and type(m) is Linear and _fits(m)]


def _fits(layer: Linear) -> bool:
    weight = layer.weight
    plain = "forward" not in vars(layer) and not weight.is_inference()
    return plain and weight.dtype is torch.float32 and weight.device.type == "cpu"


class Int8:
    """The forward pass of a linear layer: int8 weights by row, int8 activations by call.

    The weights are quantized again after they have changed. With gradients on, and while it
    is traced, the layer computes as it is. A copy or pickle of the layer is a plain one.
    """

    def __init__(self, layer: Linear) -> None:
        self._alive = ref(layer)  # which holds this object
        self._packed: object = None
        self._stamp: tuple[int, ...] = ()

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs (..., out_features) in float32 of inputs (..., in_features)."""
        layer = self._layer
        if torch.is_grad_enabled() or torch._C._get_tracing_state() or x.dtype is not torch.float32:
            return Linear.forward(layer, x)
        tensors = (layer.weight,) if layer.bias is None else (layer.weight, layer.bias)
        stamp = tuple(number for t in tensors for number in (t.data_ptr(), t._version))
        if stamp != self._stamp:
            self._packed, self._stamp = packed(layer), stamp
        batch = x.unsqueeze(0) if x.dim() == 1 else x
        answer: Tensor = torch.ops.quantized.linear_dynamic(batch, self._packed, reduce_range=True)
        return answer.squeeze(0) if x.dim() == 1 else answer

    @property
    def _layer(self) -> Linear:
        layer = self._alive()
        assert layer is not None  # its call has begun
        return layer

    def __reduce__(self) -> tuple[object, ...]:
        return _itself, (self._layer,)


def _itself(layer: Linear) -> Linear:
    return layer


def _forward(self: Int8 | Linear, input: Tensor) -> Tensor:  # noqa: A002 - as Linear calls it
    return Linear.forward(self, input) if isinstance(self, Linear) else self(input)


FORWARD = update_wrapper(
    with_globals_of(Linear.forward, _forward),  # type: ignore[arg-type]
    Linear.forward,
)
"""What a layer's `forward` is: a function with the source of Linear's, which TorchScript compiles.

It is bound to the `Int8` of a layer; in a copy of the layer, to the copy itself.
"""


def packed(layer: Linear) -> object:
    """Weights (out_features, in_features) as int8 with a scale for each row, and the bias."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that quantized tensors are deprecated
        weight = layer.weight.detach()
        scales = (weight.abs().amax(1).double() / LARGEST_INT8).clamp_min(LEAST_SCALE)
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        rows = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        return torch.ops.quantized.linear_prepack(rows, layer.bias)
