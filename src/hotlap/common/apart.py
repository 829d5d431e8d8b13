"""Backward formulas of autograd that take another way while a dispatch mode is on.

Of products and determinants torch computes gradients by a safer formula then, whose rounding
differs ("composite compliance" in torch/csrc/autograd/FunctionsManual.cpp): a profile would change
the training. So modes are taken off while those formulas run.
"""

from collections.abc import Callable

import torch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)

FORMULAS = {"aten.prod", "aten.cumprod", "aten._linalg_det", "aten._linalg_slogdet"}


class Apart:
    """Notes the operators that a mode sees; the gradients of some are computed without modes."""

    def __init__(self) -> None:
        self._made: list[torch.Tensor] = []
        self._off: list[TorchDispatchMode] = []

    def note(self, func: Callable[..., object], result: object) -> None:
        """An operator ran; the node of its gradient is there once the next one runs."""
        for tensor in self._made:
            if tensor.grad_fn is not None:
                tensor.grad_fn.register_prehook(self._take_off)
                tensor.grad_fn.register_hook(self._put_on)
        self._made.clear()
        name = str(getattr(func, "_overloadpacket", ""))  # none of higher-order operators
        if torch.is_grad_enabled() and name in FORMULAS:
            first = result[0] if isinstance(result, tuple) else result
            self._made += [first] if isinstance(first, torch.Tensor) else []

    def _take_off(self, *_: object) -> None:
        self._off = [_pop_mode() for _ in _get_current_dispatch_mode_stack()]

    def _put_on(self, *_: object) -> None:
        for mode in reversed(self._off):
            _push_mode(mode)
        self._off = []
