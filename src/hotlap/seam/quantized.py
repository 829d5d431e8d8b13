"""Linear layers of models that only answer, in 8-bit integers."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import Linear, Module

from hotlap.seam.moves import Context
from hotlap.seam.order import Order
from hotlap.seam.roots import CallModule

Layers = list[tuple[Module, str, Linear]]


@contextmanager
def int8_linear(context: Context) -> Iterator[None]:
    """Put dynamically quantized layers in the place of each root's nn.Linear; undone on exit.

    A root is quantized at its first call without gradients: by then its weights are loaded.
    """
    replaced: Layers = []

    def maker(root: Module, inner: CallModule) -> CallModule | None:
        waits = True

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal waits
            if waits and not torch.is_grad_enabled():
                waits = False
                found = quantize(root)
                replaced.extend(found)
                if found:
                    context.held(f"{len(found)} layers of {type(root).__name__}")
            return inner(*args, **kwargs)

        return call

    context.seams.roots.add(Order.CHANNELS_LAST, maker, context.failed)
    try:
        yield
    finally:
        for owner, name, layer in replaced:
            setattr(owner, name, layer)


def quantize(root: Module) -> Layers:
    """Quantize the children of a model that are exactly nn.Linear, on a CPU, without hooks.

    Returns what was there, as (owner, name, layer). A layer that several modules share is left
    alone, and so is one of a module that reads its weights by itself.
    """
    from torch.ao.nn.quantized import dynamic
    from torch.ao.quantization import default_dynamic_qconfig

    class Int8Linear(dynamic.Linear):
        """Also takes a single sample without a batch dimension, as nn.Linear does."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            batch = x.unsqueeze(0) if x.dim() == 1 else x
            answer: torch.Tensor = torch.ops.quantized.linear_dynamic(
                batch, self._packed_params._packed_params, reduce_range=True
            )
            return answer.squeeze(0) if x.dim() == 1 else answer

    places = [
        (owner, name, child)
        for owner in root.modules()
        if not isinstance(owner, (torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer))
        for name, child in owner.named_children()
        if type(child) is Linear and _fits(child)
    ]
    counts: dict[int, int] = {}
    for *_, child in places:
        for parameter in child.parameters():
            counts[id(parameter)] = counts.get(id(parameter), 0) + 1
    found = [place for place in places if all(counts[id(p)] == 1 for p in place[2].parameters())]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for owner, name, child in found:
            child.qconfig = default_dynamic_qconfig  # type: ignore[assignment]
            setattr(owner, name, Int8Linear.from_float(child))  # type: ignore[no-untyped-call]
            del child.qconfig
    return found


def _fits(layer: Linear) -> bool:
    weight = layer.weight
    plain = not (layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks)
    return plain and weight.dtype is torch.float32 and weight.device.type == "cpu"
