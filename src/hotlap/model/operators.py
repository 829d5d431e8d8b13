"""Counts what operators do, and credits it to the module that runs them."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from hotlap.common.apart import Apart
from hotlap.model.flops import formulas


@dataclass
class Row:
    """One module, without what lies in its submodules.

    `traffic`: bytes read and written by its operators; `pointwise` those of element-wise ones.
    `elements`: the same traffic counted in tensor elements. `shares_input`: how many weighted
    layers read the tensor that this one reads.
    """

    layer: str
    kind: str
    place: str
    parameters: int
    calls: int = 0
    operators: int = 0
    flops: int = 0
    traffic: int = 0
    elements: int = 0
    pointwise: int = 0
    seconds: float = 0.0
    shape: dict[str, int] = field(default_factory=dict)
    shares_input: int = 0


class Count(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Credits each operator to the module that runs it."""

    supports_higher_order_operators = True

    def __init__(self, running: Callable[[], Row | None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._running = running
        self._formulas = formulas()
        self._apart = Apart()

    def __torch_dispatch__(
        self,
        func: OpOverload[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run one operator and count it."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self._apart.note(func, result)
        row = self._running()
        if row is not None and not getattr(func, "is_view", False):
            with suppress(Exception):  # whatever is odd about it, the program goes on
                self._count(row, func, args, kwargs, result)
        return result

    def _count(
        self,
        row: Row,
        func: OpOverload[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        result: object,
    ) -> None:
        formula = self._formulas.get(func._overloadpacket)
        row.operators += 1
        if formula is not None:
            row.flops += int(formula(*args, **{**kwargs, "out_val": result}))
        tensors = [t for t in _flat((args, kwargs.values(), result)) if t.numel()]
        moved = sum(t.numel() * t.element_size() for t in tensors)
        row.elements += sum(t.numel() for t in tensors)
        row.traffic += moved
        if torch.Tag.pointwise in func.tags:
            row.pointwise += moved


def _flat(values: object, depth: int = 3) -> list[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        return [values]
    if depth and not isinstance(values, (str, bytes)) and hasattr(values, "__iter__"):
        return [tensor for value in values for tensor in _flat(value, depth - 1)]
    return []
