"""Debugging aids left on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from hotlap.seam.moves import Context
from hotlap.seam.patch import replaced


@contextmanager
def anomaly_off(context: Context) -> Iterator[None]:
    """Let nothing switch anomaly detection on; on exit it is as the script last asked for."""
    asked = [(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())]
    if asked[0][0]:
        context.held()

    def make(original: Callable[..., object]) -> object:
        original(False, asked[0][1])

        def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
            asked[0] = (enabled, check_nan)
            if enabled:
                context.held_in(sys._getframe(1))
            original(False, check_nan)

        return set_anomaly_enabled

    def makes_believe(_: object) -> object:  # detect_anomaly() puts back what it saw
        return lambda: asked[0][0]

    try:
        with (
            replaced(torch, "set_anomaly_enabled", make),
            replaced(torch, "is_anomaly_enabled", makes_believe),
        ):
            yield
    finally:
        torch.set_anomaly_enabled(*asked[0])
