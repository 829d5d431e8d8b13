"""FLOPs of one operation, from the shapes it is given."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

_ATEN = torch.ops.aten


def flops(func: object, args: tuple[object, ...], kwargs: Mapping[str, object], out: object) -> int:
    """Two for each multiplication with its addition; 0 for what is no product.

    Attention counts without the causal half, and its backward as twice the forward: scores that a
    fused kernel computes again are not counted, as in the closed forms.
    """
    if not isinstance(func, torch._ops.OpOverload):
        return 0
    packet = func._overloadpacket
    if packet in _ATTENTION:
        return _ATTENTION[packet](*args)
    count = flop_registry.get(packet)
    return int(count(*args, **kwargs, out_val=out)) if count is not None else 0


def _forward(query: Any, key: Any, value: Any, *_: object) -> int:
    count: Any = sdpa_flop_count
    return int(count(query.shape, _wide(key, query), _wide(value, query)))


def _backward(_: object, query: object, key: object, value: object, *others: object) -> int:
    return 2 * _forward(query, key, value)


def _wide(key: Any, query: Any) -> tuple[int, ...]:
    """The shape with as many heads as queries have."""
    return (key.shape[0], query.shape[1], *key.shape[2:])


_ATTENTION: Mapping[Any, Callable[..., int]] = {
    _ATEN._scaled_dot_product_flash_attention_for_cpu: _forward,
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward: _backward,
}
