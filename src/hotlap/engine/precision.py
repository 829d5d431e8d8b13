"""Number formats: autocast, loss scaling, TF32."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch.amp.grad_scaler import GradScaler

from hotlap.engine.stepper import scaler_for

_HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """One of `fp32`, `tf32`, `bf16`, `fp16` on a device.

    `scaler` is there for fp16 alone. TF32 is a switch of the whole process: `on` turns it, `off`
    turns it back.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self.name = name
        self.scaler: GradScaler | None = scaler_for(device) if name == "fp16" else None
        self._dtype = _HALF.get(name)
        self._device = device.type
        self._before = ""
        self._plain = nullcontext()

    def forward(self) -> AbstractContextManager[object]:
        """The context that forward and loss run in; backward and step belong outside."""
        if self._dtype is None:
            return self._plain
        return torch.autocast(self._device, dtype=self._dtype)

    def on(self) -> None:
        """Let float32 matrix products use TF32, if that is what was asked for."""
        if self.name == "tf32":
            self._before = torch.get_float32_matmul_precision()
            torch.set_float32_matmul_precision("high")

    def off(self) -> None:
        """Put back what `on` changed."""
        if self._before:
            torch.set_float32_matmul_precision(self._before)
            self._before = ""
